#!/usr/bin/env python3
"""Fits the constants of lib/cost/Constants.h to published runs, and refits them with each family of sources left out.

    fit.py --rows measured.csv [--start] [--left-out] [--table OUT.csv]

--start scores the constants as they are compiled in, and fits nothing. Each source counts once, whatever its rows, and
each family as much as all of its sources together; an error counts by its absolute logarithm, smoothed below 3 %. Needs build/bin/llmc-cost-rows. Families are those of the
scorer of the rows: sources that one group of people made with one stack."""
import argparse, collections, csv, json, math, os, re, subprocess, sys, tempfile
import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
FLAGS = ['dp', 'pp', 'tp', 'cp', 'ep', 'virtual_stages', 'micro_batch', 'global_batch', 'seq', 'zero', 'sequence_parallel',
         'recompute', 'precision', 'attention', 'overlap', 'software', 'gpu', 'gpus', 'gpus_per_node', 'nic_gbytes',
         'cuda_graphs', 'attention_kernel', 'grad_dtype', 'reduce_dtype', 'optimizer_dtype', 'ep_overlap', 'moe_dispatch',
         'pipeline_scatter', 'tp_overlap', 'offload', 'board_watts', 'nvlink_domain', 'launch_blocking']
FAMILIES = (('MosaicML', 'MosaicML'), ('dgxc', 'dgxc'), ('Megatron-Bridge', 'Bridge'), ('BigScience', 'BigScience'), ('nanotron', 'nanotron'),
            ('vTrain ground truth (single', 'vTrain single'), ('vTrain', 'vTrain multi'), ('Narayanan', 'Narayanan'),
            ('NVIDIA NeMo', 'NeMo'), ('SimuMax', 'SimuMax'), ('AutoModel', 'other'), ('', 'other'))


def family(source):
    return next(name for text, name in FAMILIES if text in source)


def constants():
    """Returns (name, value, least, most) of every constant, as the header has them."""
    text = open(os.path.join(ROOT, 'lib/cost/Constants.h')).read()
    out = []
    for name, field, least, most in re.findall(r'\{"(\w+)", &Constants::(\w+), ([\d.e-]+), ([\d.e-]+),', text):
        value = re.search(r'\b' + field + r' = ([\d.e-]+)', text).group(1)
        out.append((name, float(value), float(least), float(most)))
    return out


def options(row):
    """Returns the words of `llmc plan` that fix all that a row states."""
    return [word for column in FLAGS if row.get(column) not in (None, '', 'auto')
            for word in ('--' + column.replace('_', '-'), row[column])]


class Model:
    """Predicts all rows for given constants, by one process that has read them once."""

    def __init__(self, rows, folder, flags=()):
        models = {}
        runs = os.path.join(folder, 'runs.txt')
        with open(runs, 'w') as f:
            for row in rows:
                path = models.setdefault(row['config'], os.path.join(folder, f'{len(models)}', 'config.json'))
                if not os.path.exists(path):
                    os.makedirs(os.path.dirname(path))
                    open(path, 'w').write(row['config'])
                f.write(' '.join(['plan', path, *options(row)]) + '\n')
        tool = os.path.join(ROOT, 'build/bin/llmc-cost-rows')
        self.runs, self.tool = runs, tool
        self.process = subprocess.Popen([tool, runs, *flags], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.process.stdout.readline()

    def __call__(self, values):
        self.process.stdin.write(' '.join(repr(float(v)) for v in values) + '\n')
        self.process.stdin.flush()
        return np.array([float(x) for x in self.process.stdout.readline().split()])

    def parts(self):
        done = subprocess.run([self.tool, self.runs, '--parts'], capture_output=True, text=True, check=True)
        return [json.loads(line)['chosen'] for line in done.stdout.splitlines()]


def fit(model, measured, weights, start, least, most, rounds=4):
    """Fits by Gauss-Newton with damping on the logarithms, reweighted for absolute errors, in turn with a search along
    each constant: maxima of host and device make kinks that a derivative does not see. Stays inside the ranges."""
    x = np.array(start)
    smooth = 0.03

    def loss(values):
        errors = np.log(model(values) / measured)
        return float(np.sum(weights * np.sqrt(errors ** 2 + smooth ** 2))), errors

    best, errors = loss(x)
    span = most - least
    for turn in range(rounds):
        before = best
        damping = 1e-3
        for _ in range(6):
            columns = []
            for i in range(len(x)):
                y = x.copy()
                step = 0.02 * span[i]
                y[i] += step if x[i] + step <= most[i] else -step
                columns.append((np.log(model(y) / measured) - errors) / (y[i] - x[i]) * span[i])
            a = np.array(columns).T
            w = weights / np.sqrt(errors ** 2 + smooth ** 2)
            h = a.T @ (a * w[:, None])
            for _ in range(5):
                move = np.linalg.solve(h + damping * np.diag(np.diag(h) + 1e-6), -a.T @ (w * errors))
                y = np.clip(x + move * span, least, most)
                value, new = loss(y)
                if value < best - 1e-6:
                    break
                damping *= 6
            if value >= best - 1e-6:
                break
            x, errors, best = y, new, value
            damping = max(damping / 4, 1e-6)
        for i in range(len(x)):
            if span[i] < 1e-9:
                continue
            for part in (0.2, -0.2, 0.07, -0.07, 0.02, -0.02):
                y = x.copy()
                y[i] = np.clip(x[i] + part * span[i], least[i], most[i])
                value, new = loss(y)
                if value < best - 1e-6:
                    x, errors, best = y, new, value
        if before - best < 1e-3 * np.sum(weights) * 0.1:
            break
    return x


def ranks(values):
    order = np.argsort(values)
    out = np.empty(len(values))
    out[order] = np.arange(len(values))
    return out


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument('--rows', required=True)
    ap.add_argument('--start', action='store_true', help='score the constants as they are')
    ap.add_argument('--left-out', action='store_true', help='also refit without each family')
    ap.add_argument('--table', help='write every row with its prediction here')
    ap.add_argument('--only', default='', help='take only sources whose name contains this text')
    ap.add_argument('--fix', default='', help='names of constants that keep their value, by commas')
    args = ap.parse_args()
    rows = [r for r in csv.DictReader(open(args.rows)) if args.only in r['source']]
    measured = np.array([float(r['step_time_s']) for r in rows])
    sources = [r['source'] for r in rows]
    families = [family(s) for s in sources]
    count = collections.Counter(sources)
    of = collections.Counter(family(s) for s in count)  # sources of a family
    weights = np.array([(1 + len(count) / len(of) / of[f]) / 2 / count[s] for s, f in zip(sources, families)])
    known = constants()
    names = [k[0] for k in known]
    start, least, most = (np.array([k[i] for k in known]) for i in (1, 2, 3))
    for i, name in enumerate(names):
        if name in args.fix.split(','):
            least[i], most[i] = start[i], start[i] + 1e-12
    with tempfile.TemporaryDirectory() as folder:
        model = Model(rows, folder)
        x = start if args.start else fit(model, measured, weights, start, least, most)
        predicted = model(x)
        out = np.full(len(rows), np.nan)
        ranges = {n: [x[i], x[i]] for i, n in enumerate(names)}
        if args.left_out:
            for name in sorted(set(families)):
                inside = np.array([f == name for f in families])
                y = fit(model, measured, np.where(inside, 0, weights), x, least, most, 8)
                out[inside] = model(y)[inside]
                for i, n in enumerate(names):
                    ranges[n] = [min(ranges[n][0], y[i]), max(ranges[n][1], y[i])]
        error = predicted / measured - 1
        several = np.array([int(r['gpus']) > int(r['gpus_per_node']) for r in rows])
        if several.any():
            without = Model(rows, folder, ['--no-network'])(x) / measured - 1
            kinds = sorted(set(s for s, n in zip(sources, several) if n))

            def macro_of(e):
                return 100 * np.mean([np.mean(np.abs(e[several & np.array([s == k for s in sources])])) for k in kinds])
            print(f'runs on several nodes, macro over {len(kinds)} sources: {macro_of(error):.2f} %, with links that take no '
                  f'time {macro_of(without):.2f} % ({macro_of(without) / macro_of(error):.2f} times)')
        left = out / measured - 1
        print(f"{'source':44} {'rows':>5} {'mean%':>6} {'bias%':>6} {'rank':>6} {'left%':>6}")
        macro, macroLeft, kin, kinLeft = [], [], collections.defaultdict(list), collections.defaultdict(list)
        for source in sorted(count):
            inside = np.array([s == source for s in sources])
            e = 100 * error[inside]
            tokens = np.array([float(r['global_batch']) * float(r['seq']) / float(r['gpus']) for r in rows])[inside]
            a, b = ranks(tokens / predicted[inside]), ranks(tokens / measured[inside])
            rank = np.corrcoef(a, b)[0, 1] if len(a) > 2 else float('nan')
            lo = 100 * np.mean(np.abs(left[inside]))
            macro.append(np.mean(np.abs(e)))
            macroLeft.append(lo)
            kin[family(source)].append(macro[-1])
            kinLeft[family(source)].append(lo)
            print(f'{source[:44]:44} {len(e):5} {macro[-1]:6.2f} {np.mean(e):+6.2f} {rank:6.3f} {lo:6.2f}')
        print(f'macro over sources {np.mean(macro):.2f} %, left out {np.mean(macroLeft):.2f} %; over families '
              f'{np.mean([np.mean(v) for v in kin.values()]):.2f} %, left out {np.mean([np.mean(v) for v in kinLeft.values()]):.2f} %')
        parts = model.parts() if args.start else None  # which are those of the constants as they are compiled in
        peaks = [chosen['memory_bytes']['peak'] / 2**30 / float(r['memory_gib']) - 1 for r, chosen in zip(rows, parts or [])
                 if r['memory_gib'] and 'nvidia-smi' not in r['memory_kind']]
        if peaks:
            print(f'memory: {len(peaks)} peaks of allocators, mean error {100 * np.mean(np.abs(peaks)):.2f} %')
        for i, name in enumerate(names):
            print(f'{name:24} {x[i]:10.5g}   {ranges[name][0]:.4g} to {ranges[name][1]:.4g}   allowed {least[i]:g} to {most[i]:g}')
        if args.table:
            parts = parts or model.parts()
            with open(args.table, 'w', newline='') as f:
                w = csv.writer(f)
                w.writerow(['id', 'source', 'measured_s', 'predicted_s', 'error_pct'] + list(parts[0]['time_s']) + ['memory_gib'])
                for r, p, e, chosen in zip(rows, predicted, error, parts):
                    w.writerow([r['id'], r['source'], r['step_time_s'], f'{p:.4f}', f'{100 * e:.1f}'] +
                               [f'{v:.4f}' for v in chosen['time_s'].values()] + [f"{chosen['memory_bytes']['peak'] / 2**30:.2f}"])
    return 0


if __name__ == "__main__":
    sys.exit(main())
