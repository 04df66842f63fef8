"""The families that Cardwise places: one record each (sources: HAMi 2.4 to 2.10 register and pod formats)."""

from __future__ import annotations

from cardwise.core.family import Family

NVIDIA = Family(
    name="nvidia",
    title="NVIDIA",
    word="NVIDIA",
    count_resource="nvidia.com/gpu",
    memory_resource="nvidia.com/gpumem",
    memory_percent_resource="nvidia.com/gpumem-percentage",
    cores_resource="nvidia.com/gpucores",
    priority_resource="nvidia.com/priority",
    register_key="hami.io/node-nvidia-register",
    register_form="json",
    links_key="hami.io/node-nvidia-score",
    cordon_key="hami.io/device-cordon",
    use_models_key="nvidia.com/use-gputype",
    avoid_models_key="nvidia.com/nouse-gputype",
    use_uuids_key="nvidia.com/use-gpuuuid",
    avoid_uuids_key="nvidia.com/nouse-gpuuuid",
    mode_key="nvidia.com/vgpu-mode",
    one_numa_key="nvidia.com/numa-bind",
    to_allocate_key="hami.io/vgpu-devices-to-allocate",
    allocated_key="hami.io/vgpu-devices-allocated",
    default_mode="hami-core",
    partition_modes=("mig",),
)

HYGON = Family(
    name="hygon",
    title="Hygon DCU",
    word="DCU",
    count_resource="hygon.com/dcunum",
    memory_resource="hygon.com/dcumem",
    memory_percent_resource="",
    cores_resource="hygon.com/dcucores",
    priority_resource="",
    register_key="hami.io/node-dcu-register",
    register_form="text",
    links_key="",
    cordon_key="",
    use_models_key="hygon.com/use-dcutype",
    avoid_models_key="hygon.com/nouse-dcutype",
    use_uuids_key="hygon.com/use-gpuuuid",
    avoid_uuids_key="hygon.com/nouse-gpuuuid",
    mode_key="",
    one_numa_key="",
    to_allocate_key="hami.io/dcu-devices-to-allocate",
    allocated_key="hami.io/dcu-devices-allocated",
    default_mode="hami-core",
    default_cores_percent=100,
)

FAMILIES = (NVIDIA, HYGON)
