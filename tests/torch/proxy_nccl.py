"""One rank of proxy_test.py's case on GPUs: everything over a proxy around NCCL and over NCCL.

    proxy_nccl.py RANK SIZE STORE_FILE      prints one line for each thing that it looks at
"""
import sys

import sabot
import torch
import torch.distributed as dist

RANK, SIZE, STORE = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
DEVICE = torch.device("cuda", RANK)


def told(action):
    """Class and text of what the action raises, "" for nothing."""
    try:
        action()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return ""


def every(group):
    """The results of all operations, as one tensor."""
    def ones(elements):
        return torch.arange(elements, device=DEVICE) + 1.0 + RANK
    a, b, c, d = ones(4), ones(4), ones(3 * SIZE), torch.zeros(3, device=DEVICE)
    lists, wide = [torch.zeros_like(a) for _ in range(SIZE)], torch.zeros(4 * SIZE).to(DEVICE)
    dist.all_reduce(a, group=group)
    dist.broadcast(b, 0, group=group)
    dist.reduce_scatter_tensor(d, c, group=group)
    dist.all_gather(lists, a, group=group)
    dist.all_gather_into_tensor(wide, b, group=group)
    swapped = torch.zeros_like(c)
    dist.all_to_all_single(swapped, c, group=group)
    both = [ones(2), ones(5)]
    with dist._coalescing_manager(group, DEVICE, async_ops=True) as works:
        for tensor in both:
            dist.all_reduce(tensor, group=group)
    works.wait()
    ring = torch.zeros(2, device=DEVICE)
    if SIZE > 1:
        pair = [dist.P2POp(dist.isend, ones(2), (RANK + 1) % SIZE, group),
                dist.P2POp(dist.irecv, ring, (RANK - 1) % SIZE, group)]
        for work in dist.batch_isend_irecv(pair):
            work.wait()
    dist.barrier(group=group)
    torch.cuda.synchronize()
    return torch.cat([a, b, d, *lists, wide, swapped, *both, ring])


def main():
    torch.cuda.set_device(DEVICE)
    dist.init_process_group("sabot-nccl", init_method=f"file://{STORE}", rank=RANK,
                            world_size=SIZE, device_id=DEVICE)
    control = dist.new_group(backend="nccl")
    print("same", torch.equal(every(control), every(dist.group.WORLD)))
    model = torch.nn.Linear(4, 1).to(DEVICE)
    replica = torch.nn.parallel.DistributedDataParallel(model, device_ids=[RANK])
    replica(torch.ones(2, 4, device=DEVICE)).sum().backward()
    print("gradient", model.weight.grad.isfinite().all().item())
    for at in ("before", "after"):
        value = torch.ones(2, device=DEVICE)
        with sabot.inject("AllReduce", at=at, error="SystemError", required=True):
            print(at, told(lambda: dist.all_reduce(value)).split(",")[0].split(":")[0],
                  (value / SIZE).tolist() == [1.0, 1.0])
    backend = dist.group.WORLD._get_backend(DEVICE)
    with sabot.inject("AllReduce", error="SystemError", required=True):
        backend._start_coalescing()
        print("within", told(lambda: [backend.allreduce([torch.ones(1, device=DEVICE)])]))
        print("end", told(backend._end_coalescing).split(":")[0])
    for part in (dist.new_group([0]), dist.new_group(list(range(SIZE)), backend="nccl")):
        if part is not dist.GroupMember.NON_GROUP_MEMBER:
            dist.barrier(group=part)
    print("value", (torch.ones(1, device=DEVICE) * 2).item(), told(dist.destroy_process_group))


main()
