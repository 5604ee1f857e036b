def DivideLayers : Pass<"llmc-divide-layers", "::mlir::ModuleOp"> {
  let summary = "divides the layers of a model over the virtual stages of a pipeline";
  let description = [{
    Needs: @forward with its layers as repeats; p = `stages` or the stages of the mesh, v = `chunks` (virtual stage k runs
      on stage k mod p as chunk k / p).
    Gives: parallel.stage_layers on the module, the layers of each of the p v virtual stages:
      those of `layers`; else what the model's file asks for (graph.annotation on the sources of
      weights, where v is 1); else the division whose largest stage has the fewest FLOPs, where
      the first stage also has what precedes the layers (the embedding) and the last what
      follows them (the head). Of divisions with equal largest stages it takes the most even
      one (least sum of squares), of these the one with more layers on earlier stages. The
      first and the last may have no layer, the others have at least one.
      A repeat whose body has several layers is cut where a stage begins inside of the body, and
      each repeat where a chunk begins, since a stage has a range of layers of a state for each
      chunk: every part is a repeat with states of its own.
    Keeps: what @forward computes; the sources of its parameters; the order of layers.
    Errors: D1 there are too many stages for the layers, or more layers than can be divided; D2
      `layers` has other numbers than there are stages or layers, or a stage without layers between
      others, or the file asks for stages where v is not 1; D3 a stage begins where
      the layers of a body exchange more than the values that they carry, or layers run from the last
      to the first; D4 the states of layers that have to be cut are read elsewhere too.
    Example: test/passes/2-train/divide-layers.mlir
  }];
  let dependentDialects = ["::llmc::graph::GraphDialect", "::llmc::parallel::ParallelDialect"];
  let options = [
    Option<"stages", "stages", "int64_t", /*default=*/"0", "stages of the pipeline (p); 0: those of parallel.mesh, or 1">,
    Option<"chunks", "chunks", "int64_t", /*default=*/"1", "virtual stages of each stage (v)">,
    ListOption<"layers", "layers", "int64_t", "layers of each virtual stage; empty: the best balance">,
  ];
  let statistics = [Statistic<"numCuts", "cuts", "repeats made by cutting others">];
}
