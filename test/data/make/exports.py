"""GPT-2 with drawn weights, and its two ONNX exports."""
import onnx
import torch
from transformers import GPT2LMHeadModel


class Logits(GPT2LMHeadModel):
    """The model as a function of its ids, and of a mask where one is exported."""

    def forward(self, input_ids, attention_mask=None):
        return super().forward(input_ids=input_ids, attention_mask=attention_mask,
                               use_cache=False).logits


def random_weights(model, generator):
    """Every tensor away from its usual start, so that each gradient is worth comparing."""
    with torch.no_grad():
        for name, p in model.named_parameters():
            noise = torch.randn(p.shape, generator=generator)
            if p.dim() >= 2:
                p.copy_(0.12 * noise)
            elif "ln_" in name and name.endswith("weight"):
                p.copy_(1 + 0.1 * noise)
            else:
                p.copy_(0.1 * noise)


def strip(path):
    """Removes stack traces and other notes of the exporter."""
    model = onnx.load(path)
    for holder in [model, model.graph, *model.graph.node, *model.graph.initializer,
                   *model.graph.value_info, *model.graph.input, *model.graph.output]:
        holder.ClearField("doc_string")
        holder.ClearField("metadata_props")
    onnx.save(model, path)


def export_dynamo(model, path):
    ids = torch.zeros((2, 12), dtype=torch.int64)
    batch, sequence = torch.export.Dim("batch"), torch.export.Dim("sequence")
    torch.onnx.export(model, (ids,), path, dynamo=True, opset_version=18,
                      input_names=["input_ids"], output_names=["logits"], external_data=False,
                      dynamic_shapes={"input_ids": {0: batch, 1: sequence}},
                      verbose=False)
    strip(path)


def export_torchscript(model, path):
    ids = torch.zeros((2, 12), dtype=torch.int64)
    axes = {0: "batch", 1: "sequence"}
    torch.onnx.export(model, (ids, torch.ones_like(ids)), path, dynamo=False,
                      opset_version=17, input_names=["input_ids", "attention_mask"],
                      output_names=["logits"],
                      dynamic_axes={"input_ids": axes, "attention_mask": axes, "logits": axes})
    strip(path)
