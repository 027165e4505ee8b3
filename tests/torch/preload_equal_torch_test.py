"""Programs that import torch are the same forked from a preload process as from their file.

tests/integration/preload_equal_test.py has what each part of the hook does, without torch.
"""

from preload_equal import EqualTest

SETTINGS = ("settings=[torch.get_default_dtype().__str__(), torch.get_num_threads(), torch.is_grad_enabled(),"
            " torch.backends.mkldnn.enabled, torch.initial_seed() == 0]")
SAME = "torch.manual_seed(3)\nshow(draw=torch.randn(3).tolist(), " + SETTINGS + ")\n"
STEP = ("import torch\ntorch.manual_seed(1)\nmodel = torch.nn.Linear(4, 2)\noptimizer = torch.optim.AdamW(model.parameters())\n"
        "model(torch.ones(3, 4)).sum().backward()\noptimizer.step()\n")
PROGRAMS = {
    "takes a step; a loader with workers, pickling": (
        "import torch\n" + SAME + STEP + SAME + "import torch._dynamo\n" + SAME +
        "import io, pickle\nfrom torch.utils.data import DataLoader, TensorDataset\n"
        "data = TensorDataset(torch.arange(8.0))\nx = [b[0].tolist() for b in DataLoader(data, 4, num_workers=1)]\n"
        "file = io.BytesIO()\ntorch.save(model.state_dict(), file)\nfile.seek(0)\nback = torch.load(file)\n"
        "shown.append({'data': x, 'back': {k: v.tolist() for k, v in back.items()}, 'pickled': pickle.loads(pickle.dumps(model.weight)).tolist()})\n"),
    "numpy, logging and a draw first": (
        "import logging, random\nimport numpy\nrandom.seed(1)\nnumpy.random.seed(1)\nshown.append({'draw': [random.random(), numpy.random.rand()],"
        " 'torch': 'torch' in __import__('sys').modules, 'filters': process_state.filters(), 'loggers': process_state.loggers()})\n"
        "import torch\n" + SAME),
    "sets torch's logs": (
        "import logging, torch, torch._logging\ntorch._logging.set_logs(dynamo=10, graph_breaks=True)\n"
        "shown.append({'level': logging.getLogger('torch._dynamo').level})\nimport torch._dynamo\n"
        "x = [logging.getLogger('torch._dynamo' + one).getEffectiveLevel() for one in ('', '.guards', '.symbolic_convert.__graph_breaks')]\n"
        "torch._logging.set_logs()\nshown.append({'levels': x})\n"),
    "one process's group; compiles": (
        "import torch, torch.distributed as dist\nfrom torch.nn.parallel import DistributedDataParallel\n"
        "dist.init_process_group('gloo', store=dist.HashStore(), rank=0, world_size=1)\ntorch.manual_seed(1)\n"
        "m = DistributedDataParallel(torch.nn.Linear(2, 2))\nm(torch.ones(1, 2)).sum().backward()\nx = [p.grad.tolist() for p in m.parameters()]\n"
        "dist.destroy_process_group()\nshown.append({'gradients': x, 'modules': sorted(__import__('sys').modules)})\n"
        "f = torch.compile(lambda x: x.sin() + 1, backend='eager')\nshown.append({'is': f(torch.ones(2)).tolist()})\n"),
}
ANEW = {
    "OMP_NUM_THREADS first": "import os\nos.environ['OMP_NUM_THREADS'] = '2'\nimport torch\n" + SAME,
}


class PreloadEqualTorch(EqualTest):
    def test_programs_are_as_from_their_file(self):
        self.environment["TORCHINDUCTOR_CACHE_DIR"] = self.path("inductor")
        self.assert_equal_programs(PROGRAMS, ANEW, "torch,torch._dynamo", limit=240)
