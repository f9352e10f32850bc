"""Pictures from diffusion transformers, by the shared library of dit.h (`make lib`, or an installed libdit).

    import dit
    with dit.Context() as context, context.load("models/emoji-q8_0.gguf") as model:
        picture = model.generate("fox, fluent style on a purple background", seed=7)[0]
        picture.save("fox.png")
        pixels = picture.numpy()            # uint8 [height, width, 4], where numpy is installed
        other = model.generate("owl", init=picture, strength=0.6)[0]    # so may an array be, or an image of PIL
        with model.job("a cat", preview_interval=4) as job:             # work in pieces, between other work
            while not job.wait(0.5):                                    # seconds; or step(2000), which does not wait
                print(job.status.step)
            job.picture().save("cat.png")

Every function of dit.h has its place here, which docs/languages.md lists. It needs Python 3.8 and nothing else. The structures below are those of dit.h 0.2 in the same order;
tests/packages.sh compares every size and offset with the C compiler's. The library is the one that DIT_LIBRARY
names, else that in this file's folder or prefix, else the system's.
"""
from __future__ import annotations

import ctypes as c
import ctypes.util
import glob
import operator
import os
import re
import signal
import struct
import threading
import time
import wave
import zlib
from contextlib import contextmanager
from typing import IO, Any, Callable, Iterable, Iterator, List, Mapping, NamedTuple, Sequence, TypeVar, Union

VERSION = 200  # of the declarations below: major * 10000 + minor * 100 + patch
OK, WORKING, CANCELLED = 0, 1, 2
READ_RGBA8, READ_RGB_F32, READ_LATENT_F32, READ_PREVIEW, READ_SOUND_F32 = 0, 1, 2, 3, 4
PROGRESS = c.CFUNCTYPE(c.c_bool, c.c_char_p, c.c_uint64, c.c_uint64, c.c_void_p)
LOG = c.CFUNCTYPE(None, c.c_int, c.c_char_p, c.c_void_p)
TASK = c.CFUNCTYPE(None, c.c_void_p)
WORKER = c.CFUNCTYPE(c.c_bool, TASK, c.c_void_p, c.c_void_p)
MARKER = c.CFUNCTYPE(None, c.c_void_p, c.c_size_t, c.c_void_p)
WRITE = c.CFUNCTYPE(c.c_bool, c.c_void_p, c.c_size_t, c.c_void_p)
LOCK = c.CFUNCTYPE(None, c.c_void_p)
u32, u64, f32, size_t, pointer, text, flag = c.c_uint32, c.c_uint64, c.c_float, c.c_size_t, c.c_void_p, c.c_char_p, c.c_bool


def _fields(words):
    """`words`: names, each after its type; names of one type stand side by side, separated by commas."""
    return [(name, kind) for kind, names in words for name in names.split(",")]


class Error(c.Structure):
    _fields_ = _fields([(c.c_char * 504, "message"), (c.c_int, "result"), (c.c_int32, "vk"), (u32, "device")])


class Logger(c.Structure):
    _fields_ = _fields([(LOG, "func"), (c.c_int, "max_level"), (pointer, "user")])


class Progress(c.Structure):
    _fields_ = _fields([(PROGRESS, "func"), (pointer, "user")])


class Worker(c.Structure):
    _fields_ = _fields([(WORKER, "run"), (pointer, "user")])


class Marker(c.Structure):
    _fields_ = _fields([(MARKER, "func"), (pointer, "user")])


class Vulkan(c.Structure):
    """A Vulkan device of the application's for Context(vulkan=), as dit_vulkan: handles and addresses are whole numbers.
    lock_queue, unlock_queue: LOCK(function), where other threads of yours use the queue; keep them as long as the context."""
    _fields_ = _fields([
        (pointer, "get_instance_proc_addr,instance,physical_device,device"), (u32, "api_version"), (pointer, "device_info,queue"),
        (u32, "queue_family"), (pointer, "transfer_queue"), (u32, "transfer_family"), (LOCK, "lock_queue,unlock_queue"),
        (pointer, "lock_user"), (u64, "pipeline_cache"), (pointer, "host_callbacks")])


class ContextDesc(c.Structure):
    _fields_ = _fields([
        (u32, "_zero_begin"), (text, "devices"), (c.POINTER(Vulkan), "vulkan"), (u32, "vulkan_count"),
        (u32, "transport_rank,transport_rank_count"), (pointer * 4, "transport"), (pointer * 3, "allocator"),
        (pointer * 3, "device_allocator"), (Logger, "logger"), (Worker, "worker"), (Progress, "progress"),
        (pointer, "cache"), (size_t, "cache_size"), (Marker, "marker"), (pointer, "mark"), (size_t, "mark_size"),
        (u64, "device_memory_limit"), (u32, "frames_in_flight,max_slice_us"), (text, "overrides"),
        (flag, "tune,trace,trace_light"), (u32, "_zero_end")])


class Source(c.Structure):
    _fields_ = _fields([(text, "path"), (pointer, "data"), (u64, "size"), (pointer, "read_at,open,user")])


class TypeRule(c.Structure):
    _fields_ = _fields([(text, "tensors"), (c.c_int, "type")])


class ModelDesc(c.Structure):
    _fields_ = _fields([
        (u32, "_zero_begin"), (Source, "source"), (pointer, "components"), (u32, "component_count"), (c.POINTER(TypeRule), "types"),
        (u32, "type_count"), (flag, "int8_attention"), (u64, "weight_budget"),
        (flag, "release_text_encoders,keep_streamed,weights_by_need"), (u32, "parts"), (flag, "dry_run"),
        (Progress, "progress"), (u32, "_zero_end")])


class ModelInfo(c.Structure):
    _fields_ = _fields([
        (c.c_char * 32, "family,variant"), (u64 * 16, "parameters"),
        (u32, "missing,default_width,default_height,size_multiple,default_steps,class_count,frame_multiple,default_frames"),
        (f32, "default_fps"), (flag, "wants_image,takes_last_image,wants_last_image,wants_mask,wants_control,takes_control,holds_frames,takes_image"), (f32, "default_guidance"), (u32, "latent_channels,latent_factor"),
        (c.c_char * 32, "default_sampler"), (c.c_char * 28, "default_schedule"), (f32, "default_low_guidance"), (u64, "weight_bytes,streamed_bytes,absent_bytes"),
        (u32, "layers,single_layers,hidden,heads,patch,default_latent_frames"), (text * 3, "encoders"), (text * 16, "places"),
        (u32, "lora_count,control_count,sound_rate,sound_channels"), (text, "negative_prompt"), (f32, "default_sound_guidance"), (flag, "negative_always,lacks_sound")])


class LoraInfo(c.Structure):
    _fields_ = _fields([
        (c.c_char * 64, "name"), (f32, "weight"), (flag, "merged"), (u32, "modules,left_out"), (c.c_char * 128, "first_left_out"),
        (u32, "rank,dense"), (u64, "bytes"), (u32, "steps"), (f32, "guidance"), (flag, "only_merged")])


class WeightInfo(c.Structure):
    _fields_ = _fields([(c.c_int, "role,type"), (u32, "tensor_count"), (u64, "parameters,file_bytes,device_bytes")])


class DeviceInfo(c.Structure):
    _fields_ = _fields([(c.c_char * 256, "name"), (c.c_uint8 * 16, "uuid"), (u32, "vendor,type,api_version,driver_version"),
                        (u64, "memory"), (c.c_char * 32, "rung")])


READ_AT = c.CFUNCTYPE(c.c_int64, u64, pointer, size_t, pointer)
OPEN = c.CFUNCTYPE(c.c_int, text, c.POINTER(Source), pointer)


class Component(c.Structure):
    _fields_ = _fields([(Source, "source"), (c.c_int, "role"), (f32, "weight"), (flag, "merge"), (c.c_int, "lora_of")])


class Image(c.Structure):
    _fields_ = _fields([(u32, "width,height"), (text, "rgba"), (size_t, "row_pitch"), (u64, "image"), (u32, "layout,format"),
                        (pointer, "rgb")])


class Reference(c.Structure):
    _fields_ = _fields([(c.POINTER(Image), "frames"), (u32, "frame_count")])


class _Tensor(c.Structure):
    _fields_ = _fields([(text, "name"), (c.c_int, "type"), (u32, "rank"), (u64 * 5, "shape"), (pointer, "data")])


class Adapter(c.Structure):
    _fields_ = _fields([(u32, "control"), (f32, "weight,first,last"), (u32, "mode"), (Image, "image")])


class Guidance(c.Structure):
    _fields_ = _fields([
        (f32, "scale,distilled,rescale,skip_layer,first,last,project,norm_limit,skip_first,skip_last"),
        (u64, "skip_blocks"), (flag, "dynamic"), (f32, "low_scale,length_limit,sound_scale,perturb,isolate")])


class Target(c.Structure):
    _fields_ = _fields([(u64, "image"), (u32, "format,dst_queue_family,final_layout,dst_stage,dst_access"),
                        (u32, "mip,layer,usage,flags,export_handle")])


class JobDesc(c.Structure):
    _fields_ = _fields([
        (u32, "_zero_begin"), (pointer, "model"), (text, "prompt,negative_prompt"), (flag, "prompt_weights"),
        (c.POINTER(c.c_int32), "class_labels"), (pointer, "conditioning"), (size_t, "conditioning_size"),
        (pointer, "negative_conditioning"), (size_t, "negative_conditioning_size"), (c.POINTER(_Tensor), "inputs"),
        (u32, "input_count,width,height,frame_count"), (f32, "fps"), (u32, "image_count,steps"), (text, "sampler,schedule"),
        (Guidance, "guidance"), (f32, "shift,eta"), (u32, "clip_skip"), (u64, "seed"), (c.c_int, "rng"),
        (c.POINTER(Image), "init_image"), (u32, "init_count"), (c.POINTER(Image), "mask"), (u32, "mask_count"), (f32, "strength"),
        (c.POINTER(Image), "control_image"), (u32, "control_count"), (f32, "control_strength"), (c.POINTER(Reference), "references"), (u32, "reference_count"), (text, "mask_strategy"), (u32, "loop_count,loop,loop_frames"), (f32, "loop_edit"),
        (flag, "float_frames"), (c.POINTER(c.c_float), "lora_weights"), (u32, "lora_weight_count"),
        (c.POINTER(Adapter), "adapters"), (u32, "adapter_count"), (text, "split"), (flag, "resume_on_loss"), (flag, "keep_state"), (pointer, "state"), (size_t, "state_size"), (text, "cache"),
        (u32, "preview_interval"), (c.c_int, "preview"), (u32, "vae_tile"), (flag, "no_sound"), (Target, "target"), (Progress, "progress"), (u32, "_zero_end")])


class Status(c.Structure):
    """How far a job is (dit_status). fraction: 0 to 1. stage: a number in STAGES. frame: frames that can be read by now.
    sound_samples: samples of each channel that Job.sound() gives by now."""
    _fields_ = _fields([
        (u32, "step,step_count"), (f32, "fraction"), (u32, "last_slice_us,recorded_us,preview_id,frame,frame_count,reruns"),
        (text, "rerun_op"), (u32, "failed_devices"), (c.c_int, "result,stage"), (u32, "reused,sound_samples")])


class Output(c.Structure):
    """A picture on the device (dit_output): handles of Vulkan as whole numbers. width, height: pixels."""
    _fields_ = _fields([(u64, "image,view"), (u32, "format,layout,width,height"), (u64, "timeline,value"), (u32, "device"), (flag, "final")])


class Counters(c.Structure):
    """Counts since a job was made (dit_counters). peer_bytes, streamed_bytes: bytes."""
    _fields_ = _fields([(u64, "dispatches,submits,recordings,allocations,pipelines,peer_bytes,streamed_bytes")])


class _Share(c.Structure):
    _fields_ = _fields([(u32, "device"), (f32, "part"), (u64, "step_bytes"), (c.c_char * 160, "work")])


class Export(c.Structure):
    """A picture's memory for another device or API (dit_export). handle: a file descriptor, on Windows a HANDLE, which is the
    caller's. size: bytes. width, height: pixels."""
    _fields_ = _fields([(c.c_int64, "handle"), (u32, "handle_type,memory_type"), (u64, "size"),
                        (u32, "format,width,height,usage,flags,layout")])


class OpInfo(c.Structure):
    _fields_ = _fields([
        (text, "name,segment,weight,output"), (u32, "index,runs"), (c.c_int, "kind"), (u32 * 5, "shape"),
        (c.c_double, "flops,bytes"), (u64, "live")])


class TensorInfo(c.Structure):
    _fields_ = _fields([(text, "name"), (c.c_int, "type"), (u32, "rows,columns"), (u64, "bytes,offset"),
                        (u32, "block,first_op,last_op"), (flag, "arena")])


INSPECT_OP = c.CFUNCTYPE(c.c_bool, c.POINTER(OpInfo), c.c_void_p)
INSPECT_TENSOR = c.CFUNCTYPE(c.c_bool, c.POINTER(TensorInfo), c.c_void_p)


class Inspector(c.Structure):
    _fields_ = _fields([(INSPECT_OP, "op"), (INSPECT_TENSOR, "tensor"), (pointer, "user")])


class Memory(c.Structure):
    """Bytes that a picture needs (dit_memory)."""
    _fields_ = _fields([(u64, "weights,activations,peak"), (size_t, "host"), (u64, "streamed,device_local,host_visible"),
                        (c.c_char * 128, "split"), (c.c_double, "seconds")])


class DitError(RuntimeError):
    """A call failed; `result` is one of dit_result, the message names the culprit and what to do."""

    def __init__(self, message, result):
        super().__init__(message)
        self.result = result


def _beside():
    """The library next to this file, or in the prefix whose share/dit has this file: loaders know few of these folders."""
    here = os.path.dirname(os.path.abspath(__file__))
    name = f"libdit.so.{VERSION // 10000}.{VERSION // 100 % 100}"
    for folder in ("", "../../lib", "../../lib64", "../../lib/*", "../../bin"):
        for file in (name, "dit.dll"):
            found = glob.glob(os.path.join(glob.escape(here), folder, file))
            if found:
                return found[0]
    return None


def _load():
    path = os.environ.get("DIT_LIBRARY") or _beside() or ctypes.util.find_library("dit")
    if not path:
        raise OSError("libdit is not installed: run `make install-lib` in dit.h's folder, or name it in DIT_LIBRARY")
    library = c.CDLL(path)
    if library.dit_version() // 100 != VERSION // 100:
        raise OSError(f"{path} is version {library.dit_version()}, dit.py is written for {VERSION}")
    for kind, names in ((None, "dit_context_destroy dit_model_get_info dit_model_destroy dit_encoding_destroy dit_job_status "
                         "dit_job_cancel dit_job_destroy dit_job_get_counters dit_job_retire dit_trace_mark dit_trace_end"),
                        (text, "dit_result_string dit_type_name dit_sampler_name dit_schedule_name dit_model_distilled"),
                        (flag, "dit_model_edited_size"), (u64, "dit_trace_begin")):
        for name in names.split():
            getattr(library, name).restype = kind
    return library


_lib = _load()


def _check(result, error):
    if result < 0:
        raise DitError(error.message.decode("utf-8", "replace") or _lib.dit_result_string(result).decode(), result)
    if result == CANCELLED:
        raise DitError("cancelled", CANCELLED)
    return result


def _text(encoded):
    """Bytes as C reads them: a NUL would cut them off, and a path would be that of another file."""
    if b"\0" in encoded:
        raise ValueError(f"there is a NUL in {encoded!r}")
    return encoded


def _whole(name, value, bits=32, none=0):
    """A number that C has room for: ctypes takes the lowest bits of any other, and a seed of -1 would be one."""
    try:
        value = operator.index(none if value is None else value)
    except TypeError:
        raise TypeError(f"{name} is {value!r}; it must be a whole number") from None
    if not 0 <= value < 1 << bits:
        raise ValueError(f"{name} is {value}; it must be 0 to {(1 << bits) - 1}")
    return value


def _real(name, value):
    try:
        return f32(0 if value is None else value).value
    except TypeError:
        raise TypeError(f"{name} is {value!r}; it must be a number") from None


def _is_no(answer):
    """False, numpy's too; a function without a result gives None."""
    return answer is not None and not answer


def _image(name, value, keep):
    """A dit_image of a Picture, or of whatever numpy reads as uint8 [height, width, 3 or 4] or [height, width]; `keep`
    holds its bytes."""
    if not isinstance(value, Picture):
        import numpy
        array = numpy.asarray(value.convert("RGBA") if hasattr(value, "convert") else value)  # PIL's: of palettes it gives indices
        if array.dtype != numpy.uint8 or array.ndim not in (2, 3) or array.ndim == 3 and array.shape[2] not in (3, 4):
            raise ValueError(f"{name} is {array.dtype} {list(array.shape)}; it must be uint8 [height, width, 3 or 4], or a mask "
                             "[height, width]")
        if array.ndim == 2:
            array = numpy.repeat(array[..., None], 3, axis=2)
        if array.shape[2] == 3:
            array = numpy.concatenate([array, numpy.full_like(array[..., :1], 255)], axis=2)
        value = Picture(array.shape[1], array.shape[0], array.tobytes())
    if len(value.rgba) != value.width * value.height * 4:
        raise ValueError(f"{name} has {len(value.rgba)} bytes; {value.width} x {value.height} pixels have {value.width * value.height * 4}")
    keep.append(value.rgba)
    return Image(width=value.width, height=value.height, rgba=value.rgba)


def _images(name, value, keep):
    """An array of them and its length: of one picture, or of several in a list or a tuple."""
    several = [_image(name, one, keep) for one in (value if isinstance(value, (list, tuple)) else [value])]
    if not several:
        raise ValueError(f"{name} is empty; None stands for no picture")
    return (Image * len(several))(*several), len(several)


class Device(NamedTuple):
    """A Vulkan device. rung: the best kernels that it can run, "none" if dit cannot use it. memory: bytes of its largest heap.
    vendor, type (a VkPhysicalDeviceType), api_version and driver_version: numbers of Vulkan's."""
    name: str
    rung: str
    memory: int
    uuid: str
    vendor: int = 0
    type: int = 0
    api_version: int = 0
    driver_version: int = 0

    @classmethod
    def _of(cls, info):
        return cls(info.name.decode("utf-8", "replace"), info.rung.decode(), info.memory, bytes(info.uuid).hex(), info.vendor,
                   info.type, info.api_version, info.driver_version)


class Lora(NamedTuple):
    """A LoRA of a model. weight: the strength that jobs give it by themselves. modules: layers that it adds to. left_out:
    layers of its file that the model lacks; first_left_out names one. dense: layers whose part is as large as their weight.
    bytes: device memory. steps, guidance: what it wants; 0: it says nothing. only_merged: it is DoRA, which must be merged."""
    name: str
    weight: float
    merged: bool
    modules: int
    left_out: int
    first_left_out: str
    rank: int
    dense: int
    bytes: int
    steps: int
    guidance: float
    only_merged: bool


# Where a model, a part or a LoRA comes from: a path of a file or a folder; a binary file that can be sought (io.BytesIO for one
# in memory); or, for a folder, a function that opens a file of it by its relative path, and raises FileNotFoundError or
# KeyError where there is none. Files are read while weights are streamed, too: leave them open as long as the model.
Place = Union[str, "os.PathLike[str]", IO[bytes], Callable[[str], IO[bytes]]]


class LoraFile(NamedTuple):
    """A LoRA for Context.load(loras=), where a place or a pair of place and weight says too little. weight: its strength, not 0.
    merge: it becomes part of the weights. second: it is for transformer_2."""
    path: Place
    weight: float = 1.0
    merge: bool = False
    second: bool = False


class Weights(NamedTuple):
    """Tensors of one part of a model that have one type in its files. role: one of ROLES. type: one of TYPES. parameters:
    values. file_bytes, device_bytes: their sizes."""
    role: str
    type: str
    tensor_count: int
    parameters: int
    file_bytes: int
    device_bytes: int


class Share(NamedTuple):
    """One device's part of a job that is split. device: its place in Context.devices. part: 0 to 1 of the work. step_bytes:
    bytes that it sends to others in each step."""
    device: int
    part: float
    step_bytes: int
    work: str


class Op(NamedTuple):
    """A dispatch of a planned job (dit_op_info). number: its place in the plan. kind: one of OP_KINDS, which says how to read shape. runs: how often a run
    executes it. flops, bytes: operations, and bytes read and written, of one run. live: bytes of tensors that live meanwhile."""
    name: str
    segment: str
    weight: str
    output: str
    number: int
    runs: int
    kind: str
    shape: tuple[int, ...]
    flops: float
    bytes: float
    live: int


class Planned(NamedTuple):
    """A tensor [rows, columns] that a planned job keeps on the device (dit_tensor_info). bytes, offset: in its block of device
    memory. first_op, last_op: the ops between which it lives. arena: it shares memory with tensors of other times."""
    name: str
    type: str
    rows: int
    columns: int
    bytes: int
    offset: int
    block: int
    first_op: int
    last_op: int
    arena: bool


class Tensor(NamedTuple):
    """Numbers: shape, the slowest dimension first; data: bytes, dense and little-endian; type: one of TYPES."""
    shape: tuple[int, ...]
    data: bytes
    type: str = "F32"

    def numpy(self):
        """An array of that shape; a view of data."""
        import numpy
        return numpy.frombuffer(self.data, numpy.dtype(_DTYPES[self.type])).reshape(self.shape)


class Control(NamedTuple):
    """A control net at work, for generate(adapters=). picture: the edges, depth or pose that it follows, of the size that is
    made. number: among the model's control nets. weight: its strength, not 0. first, last: fractions of the steps between
    which it works; 0, 0: all. mode: the kind of picture, of a net that tells several apart."""
    picture: Any
    number: int = 0
    weight: float = 1.0
    first: float = 0.0
    last: float = 0.0
    mode: int = 0


_DTYPES = {"F32": "<f4", "F16": "<f2", "I32": "<i4", "I64": "<i8"}
STAGES = ("queued", "encode", "denoise", "decode", "done")
OP_KINDS = ("product", "convolution", "attention", "other")


def _plain(kind, info, /, **known):
    """A NamedTuple of the members of a structure that have its names, but for those that are known."""
    values = (known[name] if name in known else getattr(info, name) for name in kind._fields)
    return kind(*(value.decode("utf-8", "replace") if isinstance(value, bytes) else value for value in values))


def _listed(kind, function, *arguments):
    """The entries that a function writes to an array whose length it tells first."""
    count, error = u32(), Error()
    _check(function(*arguments, None, c.byref(count), c.byref(error)), error)
    infos = (kind * count.value)()
    _check(function(*arguments, infos, c.byref(count), c.byref(error)), error)
    return infos[:count.value]


def devices() -> list[Device]:
    """The devices of this machine, in the order by which Context counts them."""
    return [Device._of(info) for info in _listed(DeviceInfo, _lib.dit_device_list)]


def version() -> str:
    """The version of the library, as "0.2.0"."""
    number = _lib.dit_version()
    return f"{number // 10000}.{number // 100 % 100}.{number % 100}"


def device_extend(get_instance_proc_addr: int, instance: int, gpu: int, create_info: int) -> c.Structure:
    """A VkDeviceCreateInfo with which a device of yours can run dit at its best: that at the address create_info, and what dit
    can use besides. Give its address (ctypes.addressof) to vkCreateDevice and to Vulkan(device_info=), and keep it until
    the context is there, as well as structures of a pNext chain that dit does not know. Handles are whole numbers."""
    class CreateInfo(c.Structure):
        _fields_ = _fields([
            (u32, "sType"), (pointer, "pNext"), (u32, "flags,queueCreateInfoCount"), (pointer, "pQueueCreateInfos"),
            (u32, "enabledLayerCount"), (pointer, "ppEnabledLayerNames"), (u32, "enabledExtensionCount"),
            (pointer, "ppEnabledExtensionNames,pEnabledFeatures")])

    out, size, error, memory = CreateInfo(), size_t(), Error(), None
    given = [pointer(value) for value in (get_instance_proc_addr, instance, gpu, create_info)]
    for _ in range(2):  # the size, then what out points to
        _check(_lib.dit_device_extend(*given, memory, c.byref(size), c.byref(out) if memory else None, c.byref(error)), error)
        memory = memory or (u64 * (size.value // 8 + 1))()
    out.memory = memory
    return out


def _names(function):
    names = []
    while function(u32(len(names))):
        names.append(function(u32(len(names))).decode())
    return names


def samplers() -> list[str]:
    """Names that generate() takes as sampler; it knows those of diffusers, A1111 and ComfyUI, too."""
    return _names(_lib.dit_sampler_name)


def schedules() -> list[str]:
    """Names that generate() takes as schedule."""
    return _names(_lib.dit_schedule_name)


def find_sampler(name: str) -> tuple[str, str | None]:
    """The sampler that other programs call by this name, "DPM++ 2M Karras" for one, and the schedule where the name has one."""
    sampler, schedule, error = text(), text(), Error()
    _check(_lib.dit_find_sampler(_text(name.encode()), c.byref(sampler), c.byref(schedule), c.byref(error)), error)
    return (sampler.value or b"").decode(), schedule.value.decode() if schedule.value else None


def find_schedule(name: str) -> str | None:
    """The schedule of this name, "sgm_uniform" for one; None: the model's own ("automatic")."""
    schedule, error = text(), Error()
    _check(_lib.dit_find_schedule(_text(name.encode()), c.byref(schedule), c.byref(error)), error)
    return schedule.value.decode() if schedule.value else None


def _types():
    """Names of dit_type in their order, without the first, which leaves numbers as they are stored."""
    names = []
    while _lib.dit_type_name(len(names) + 1) != b"stored":
        names.append(_lib.dit_type_name(len(names) + 1).decode())
    return {name: number + 1 for number, name in enumerate(names)}


TYPES = _types()
_TYPE_NAMES = {number: name for name, number in TYPES.items()}


def mix(a: bytes, b: bytes, part: float) -> bytes:
    """A prompt between two of one model, as encode() gives them: a for part 0, b for part 1."""
    blob, error = c.create_string_buffer(len(a)), Error()
    if len(a) != len(b):
        raise ValueError(f"{len(a)} and {len(b)} bytes are no prompts of one model")
    _check(_lib.dit_mix_prompts(a, b, size_t(len(a)), f32(part), blob, c.byref(error)), error)
    return blob.raw


class _Hooks:
    """Functions of Python that C calls. C passes no exception on, and ctypes would only print it: what is raised in one of
    them ends the library's call as soon as that asks, and is raised again where the call returns. So is Ctrl-C."""

    def __init__(self, log=None, progress=None):
        self._thread = threading.local()  # what was raised in it
        self._progress, self.kept = progress, ()  # progress of calls that are given none of their own; what C may call
        self.log = LOG(lambda level, message, _: self._hook(log, level, message.decode("utf-8", "replace"))) if log else LOG()

    def progress(self, func=None):
        func = func or self._progress
        return Progress(PROGRESS(lambda what, *numbers: not _is_no(self._hook(func, what.decode("utf-8", "replace"), *numbers[:2]))))

    def worker(self, threads):
        """Threads that compile kernels beside the one that calls, at most so many at a time."""
        free = threading.Semaphore(threads)

        def compile_there(task, arg):
            try:
                task(arg)
            finally:
                free.release()

        def run(task, arg, _):
            if not free.acquire(blocking=False):
                return False
            try:
                threading.Thread(target=compile_there, args=(task, arg), daemon=True).start()
            except RuntimeError:  # no thread can be started
                free.release()
                return False
            return True

        return Worker(WORKER(run)) if threads else Worker()

    def marker(self, func):
        return Marker(MARKER(lambda mark, size, _: self._hook(func, c.string_at(mark, size) if size else b""))) if func else Marker()

    def told(self, func, *arguments):
        """Calls a function that only listens. False: it has raised something, and the call ends."""
        self._hook(func, *arguments)
        return not getattr(self._thread, "raised", None)

    def _hook(self, func, *arguments):
        try:
            answer = func(*arguments) if func else None
        except BaseException as raised:
            self._keep(raised)
        return False if getattr(self._thread, "raised", None) else answer

    def _keep(self, raised):
        self._thread.raised = getattr(self._thread, "raised", None) or raised

    def call(self, function, *arguments):
        """Calls a function of the library. Python runs a signal's handler in the first function of Python that C calls,
        where ctypes loses what it raises: until C has returned Ctrl-C is kept, too."""
        handler = signal.getsignal(signal.SIGINT) if threading.current_thread() is threading.main_thread() else None

        def interrupt(*signal_and_frame):
            try:
                handler(*signal_and_frame)
            except BaseException as raised:
                self._keep(raised)

        try:
            if callable(handler):
                signal.signal(signal.SIGINT, interrupt)
            result = function(*arguments)
        finally:
            if callable(handler):
                signal.signal(signal.SIGINT, handler)
            raised, self._thread.raised = getattr(self._thread, "raised", None), None
            try:
                if raised:
                    raise raised
            finally:
                del raised  # it holds this frame, and by that all that its callers hold
        return result


class _Handle:
    """An object of the library, destroyed when its owner has closed it and no call and no child of it uses it any more:
    in any thread, and whichever of them Python collects first."""

    _lock = threading.RLock()  # of all counts; a collection may come in the middle of a call

    def __init__(self, destroy, hooks, parent=None):
        self.pointer, self.hooks, self.parent, self.kept = pointer(), hooks, parent, []  # kept: what C may call
        self._destroy, self._users = destroy, 1

    def take(self):
        with self._lock:
            if not self._users:
                raise DitError("it is closed", -1)
            self._users += 1
        return self

    def drop(self):
        with self._lock:
            self._users -= 1
            last = not self._users
        if last:
            self._destroy(self.pointer)
            if self.parent:
                self.parent.drop()


_Self = TypeVar("_Self", bound="_Owner")


class _Owner:
    """Closes what it holds at the end of its `with`, or when it is collected."""

    def _own(self, handle, create, *arguments):
        """Calls create(*arguments, out, error). The handle is there before, so that nothing that is raised, Ctrl-C for one,
        leaves an object behind."""
        self._handle, error = handle, Error()
        try:
            _check(handle.hooks.call(create, *arguments, c.byref(handle.pointer), c.byref(error)), error)
        except BaseException:
            self.close()
            raise

    def __enter__(self: _Self) -> _Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self):
        self.close()

    def close(self) -> None:
        """What uses it still, a model of a context or generate() in another thread, may go on."""
        handle = self.__dict__.pop("_handle", None)
        if handle:
            handle.drop()

    def _use(self):
        handle = self.__dict__.get("_handle")
        if not handle:
            raise DitError(f"the {type(self).__name__.lower()} is closed", -1)
        return handle.take()


class _Gate:
    """Lets calls about a model run side by side, and one that changes it alone."""

    def __init__(self):
        self._changed, self._inside, self._alone = threading.Condition(), [], None

    @contextmanager
    def shared(self):
        me = threading.get_ident()
        with self._changed:
            if self._alone == me:
                raise DitError("a hook of add_lora() cannot use the model", -1)
            while self._alone is not None:
                self._changed.wait()
            self._inside.append(me)
        try:
            yield
        finally:
            with self._changed:
                self._inside.remove(me)
                self._changed.notify_all()

    @contextmanager
    def alone(self):
        me = threading.get_ident()
        with self._changed:
            if me in self._inside or self._alone == me:
                raise DitError("a hook of a call about the model cannot change the model", -1)
            while self._alone is not None or self._inside:
                self._changed.wait()
            self._alone = me
        try:
            yield
        finally:
            with self._changed:
                self._alone = None
                self._changed.notify_all()


class Context(_Owner):
    """A device, or several, and its pipelines. devices: a number in devices(), part of a name, or "uuid:" and its digits;
    or a list of these. log(level, message) hears messages up to `level`. cache: what save_cache() gave at the last start.
    memory_limit: bytes of device memory. progress(what, done, total): False cancels.

    threads: how many of them compile kernels beside the one that calls. tune: kernels that the cache does not know are
    measured. trace, trace_light: for trace_write(). marker(bytes) keeps bytes, or with b"" forgets them, where the next start
    finds them for mark, so that kernels which the process does not survive are left out.
    vulkan: a Vulkan device of yours, or a list of them, instead of devices; frames_in_flight: calls of Job.record whose
    commands may be pending; max_slice_us: microseconds of the longest piece of GPU work.
    """

    def __init__(self, devices: str | int | Sequence[str | int] | None = None,
                 log: Callable[[int, str], Any] | None = None, level: int = 2, overrides: str | None = None, cache: bytes | None = None, memory_limit: int = 0,
                 progress: Callable[[str, int, int], Any] | None = None, threads: int = 0, tune: bool = False, trace: bool = False,
                 trace_light: bool = False, marker: Callable[[bytes], Any] | None = None, mark: bytes | None = None,
                 vulkan: Vulkan | Sequence[Vulkan] | None = None, frames_in_flight: int = 0, max_slice_us: int = 0):
        desc, hooks = ContextDesc(), _Hooks(log, progress)
        if isinstance(devices, (list, tuple)):
            devices = ",".join(map(str, devices))
        desc.devices = _text(str(devices).encode()) if devices is not None else None
        desc.overrides = _text(overrides.encode()) if overrides else None
        desc.logger.func, desc.logger.max_level = hooks.log, level
        if cache:
            desc.cache, desc.cache_size = c.cast(text(cache), pointer), len(cache)
        if mark:
            desc.mark, desc.mark_size = c.cast(text(mark), pointer), len(mark)
        desc.device_memory_limit = _whole("memory_limit", memory_limit, 64)
        desc.tune, desc.trace, desc.trace_light = bool(tune), bool(trace or trace_light), bool(trace_light)
        desc.frames_in_flight = _whole("frames_in_flight", frames_in_flight)
        desc.max_slice_us = _whole("max_slice_us", max_slice_us)
        if vulkan is not None:
            own = [vulkan] if isinstance(vulkan, Vulkan) else list(vulkan)
            desc.vulkan, desc.vulkan_count = (Vulkan * len(own))(*own), len(own)
        desc.progress, desc.worker, desc.marker = hooks.progress(), hooks.worker(_whole("threads", threads, 16)), hooks.marker(marker)
        hooks.kept = desc.progress, desc.worker, desc.marker  # the library calls them for as long as the context lives
        self._own(_Handle(_lib.dit_context_destroy, hooks), _lib.dit_context_create, c.byref(desc))

    def load(self, path: Place | None, weight_budget: int = 0, components: Mapping[str, Place | Sequence[Place]] | None = None,
             loras: Iterable[Place | tuple[Place, float] | LoraFile] = (), release_text_encoders: bool = False,
             parts: Iterable[str] | None = None, progress: Callable[[str, int, int], Any] | None = None,
             types: Iterable[tuple[str, str]] = (), int8_attention: bool = False, keep_streamed: bool = False,
             weights_by_need: bool = False) -> Model:
        """A model from a file or a diffusers folder (see Place). weight_budget: bytes of device memory; the rest is streamed.

        components: parts that lie elsewhere, as {"vae": path}, or a list of places (of control nets); names are those of ROLES.
        parts: the only ones to be loaded, as ("transformer", "vae") where prompts are encoded. loras: places, pairs of a place
        and a weight, or LoraFiles. progress(part, done, total) counts bytes; if it returns False, DitError with result 2 ends
        the call. types: pairs of tensors and a type of TYPES, as ("transformer.*blocks.*", "I8_ROW").
        keep_streamed, weights_by_need, int8_attention: as in dit_model_desc of dit.h.
        """
        return Model(self, path, progress, dict(
            weight_budget=weight_budget, components=components, loras=loras, release_text_encoders=release_text_encoders,
            parts=parts, types=types, int8_attention=int8_attention, keep_streamed=keep_streamed, weights_by_need=weights_by_need))

    @property
    def device(self) -> Device:
        """The first device, with the kernels in use."""
        info, error, handle = DeviceInfo(), Error(), self._use()
        try:
            _check(_lib.dit_context_device(handle.pointer, c.byref(info), c.byref(error)), error)
        finally:
            handle.drop()
        return Device._of(info)

    @property
    def devices(self) -> list[Device]:
        """All of its devices, the first one first."""
        handle = self._use()
        try:
            return [Device._of(info) for info in _listed(DeviceInfo, _lib.dit_context_devices, handle.pointer)]
        finally:
            handle.drop()

    def save_cache(self) -> bytes:
        """Bytes for Context(cache=): compiled pipelines, and what was measured."""
        size, error, handle = size_t(), Error(), self._use()
        try:
            blob, room = None, 0
            while True:
                result = handle.hooks.call(_lib.dit_context_save_cache, handle.pointer, blob, c.byref(size), c.byref(error))
                if blob and result >= 0:
                    return blob.raw[:size.value]
                if size.value <= room:  # else another thread has added to it since it was asked for its size
                    _check(result, error)
                blob, room = c.create_string_buffer(size.value), size.value
        finally:
            handle.drop()

    def trace_mark(self, name: str) -> None:
        """Puts a moment into the trace; without a trace it does nothing."""
        handle = self._use()
        try:
            _lib.dit_trace_mark(handle.pointer, _text(name.encode()))
        finally:
            handle.drop()

    @contextmanager
    def trace_range(self, name: str) -> Iterator[None]:
        """Puts what happens inside of a `with` into the trace, of the host and of the GPU."""
        handle, words = self._use(), _text(name.encode())
        try:
            number = u64(_lib.dit_trace_begin(handle.pointer, words))
            try:
                yield
            finally:
                _lib.dit_trace_end(handle.pointer, number)
        finally:
            handle.drop()

    def trace_write(self, file: str | os.PathLike | IO[bytes]) -> None:
        """Writes the trace so far as JSON for ui.perfetto.dev, to a path or a binary file, and empties it. The context was made
        with trace or trace_light."""
        if not hasattr(file, "write"):
            with open(file, "wb") as opened:
                return self.trace_write(opened)
        error, handle = Error(), self._use()
        try:
            write = WRITE(lambda data, size, _: handle.hooks.told(lambda: file.write(c.string_at(data, size))))
            _check(handle.hooks.call(_lib.dit_trace_write, handle.pointer, write, None, c.byref(error)), error)
        finally:
            handle.drop()


# The names of parts, as diffusers' folders have them, and their dit_role. "tokenizers" and "t5" stand for the one of several
# parts that fits, "sound" for audio_vae and vocoder, or for either.
ROLES = {"transformer": 1, "text_encoder": 2, "text_encoder_2": 3, "text_encoder_3": 4, "tokenizer": 5, "tokenizer_2": 6,
         "tokenizer_3": 7, "vae": 8, "tae": 9, "scheduler": 10, "controlnet": 12, "transformer_2": 13, "image_encoder": 14,
         "tokenizers": 15, "t5": 16, "sound": 17}
_ROLE_NAMES = {number: name for name, number in ROLES.items()}
_LORA, _SECOND, _ERROR_IO = 11, 13, -8
PREVIEWS = {None: 0, "proj": 1, "tae": 2, "vae": 3}
RNGS = {None: 0, "torch": 1, "philox": 2}


def _source(place, hooks, keep):
    """A dit_source of a Place; `keep` holds its functions, which the library calls for as long as the model lives."""
    if hasattr(place, "read"):
        lock, size = threading.Lock(), place.seek(0, os.SEEK_END)

        def read(offset, to, size):
            with lock:
                place.seek(offset)
                data = place.read(size)
            c.memmove(to, data, len(data))
            return len(data)

        function = READ_AT(lambda *arguments: int(hooks._hook(read, *arguments[:3])))  # 0 is a failure
        keep.append(function)
        return Source(size=size, read_at=c.cast(function, pointer))
    if callable(place):
        def find(name, out):
            try:
                out[0] = _source(place(name.decode()), hooks, keep)
            except (FileNotFoundError, KeyError):
                return _ERROR_IO
            return OK

        def open_member(name, out, _):
            result = hooks._hook(find, name, out)
            return _ERROR_IO if result is False else result

        keep.append(OPEN(open_member))
        return Source(open=c.cast(keep[-1], pointer))
    return Source(_text(os.fsencode(place)))


def _lora(lora, hooks, keep):
    """A dit_component of a place, of a place and a weight, or of a LoraFile."""
    lora = LoraFile(*lora) if isinstance(lora, tuple) else LoraFile(lora)
    if not lora.weight:
        raise ValueError(f"the weight of {lora.path} is 0, which C takes for 1: say so in lora_weights of generate()")
    return Component(_source(lora.path, hooks, keep), _LORA, _real("weight", lora.weight), bool(lora.merge), _SECOND if lora.second else 0)


def describe(path: Place | None, **more: Any) -> Model:
    """A model of headers alone, without a device: its info, weights(), memory() and inspect() answer, nothing else. Files may
    end before their data. More parameters are those of Context.load."""
    return Model(None, path, more.pop("progress", None), more)


class Model(_Owner):
    """Weights. `info` tells its family, sizes and defaults (dit_model_info)."""

    info: ModelInfo

    def __init__(self, context, path, progress, what):
        self._gate, self._strengths = _Gate(), {}  # strengths that set_lora_weight() has given
        parent = context._use() if context else _Handle(lambda _: None, _Hooks())  # a context lives as long as its models
        handle, desc, keep = _Handle(_lib.dit_model_destroy, parent.hooks, parent), ModelDesc(), []
        handle.kept = keep
        try:
            self._ask(desc, path, dict(what), handle.hooks, keep)
            desc.dry_run, desc.progress = context is None, parent.hooks.progress(progress)
        except BaseException:
            handle.drop()
            raise
        self._own(handle, _lib.dit_model_load, parent.pointer, c.byref(desc))
        self.info = ModelInfo()
        _lib.dit_model_get_info(handle.pointer, c.byref(self.info))

    def _ask(self, desc, path, what, hooks, keep):
        """Fills desc from parameters of Context.load, all of which must be known."""
        take, given = what.pop, []
        components, parts = take("components", None) or {}, set(take("parts", None) or ())
        for name in (*components, *parts):
            if name not in ROLES:
                raise ValueError(f"there is no component {name!r}; there are {', '.join(ROLES)}")
        for name, places in components.items():
            for place in places if isinstance(places, (list, tuple)) else [places]:
                given.append(Component(_source(place, hooks, keep), ROLES[name]))
        given.extend(_lora(lora, hooks, keep) for lora in take("loras", ()))
        rules = []
        for tensors, kind in take("types", ()):
            if kind not in TYPES:
                raise ValueError(f"there is no type {kind!r}; there are {', '.join(TYPES)}")
            rules.append(TypeRule(_text(tensors.encode()), TYPES[kind]))
        if path is not None:
            desc.source = _source(path, hooks, keep)
        desc.weight_budget = _whole("weight_budget", take("weight_budget", 0), 64)
        for name in ("release_text_encoders", "int8_attention", "keep_streamed", "weights_by_need"):
            setattr(desc, name, bool(take(name, False)))
        desc.parts = sum(1 << ROLES[name] for name in parts)
        array = (Component * len(given))(*given)
        keep.append(array)
        desc.components, desc.component_count = c.cast(array, pointer) if given else None, len(given)
        if rules:
            desc.types, desc.type_count = (TypeRule * len(rules))(*rules), len(rules)
        if what:
            raise TypeError(f"there is no parameter {', '.join(what)}")

    def _on_device(self):
        handle = self._use()
        if not handle.parent.pointer:
            handle.drop()
            raise DitError("describe() has read the headers of the model alone: Context.load makes one that can work", -1)
        return handle

    @contextmanager
    def _about(self, on_device=False):
        """The model for a call that reads it, beside other such calls."""
        handle = self._on_device() if on_device else self._use()
        try:
            with self._gate.shared():
                yield handle
        finally:
            handle.drop()

    def weights(self) -> list[Weights]:
        """The tensors of its files, part by part and type by type."""
        with self._about() as model:
            infos = _listed(WeightInfo, _lib.dit_model_weights, model.pointer)
        return [_plain(Weights, info, role=_ROLE_NAMES.get(info.role, ""), type=_TYPE_NAMES.get(info.type, "")) for info in infos]

    @property
    def distilled(self) -> str | None:
        """A sentence about a distilled model whose files look like this one's, with the steps and guidance that it wants."""
        with self._about() as model:
            told = _lib.dit_model_distilled(model.pointer)
        return told.decode() if told else None

    @property
    def edits(self) -> bool | None:
        """True where it was made to edit the pictures of references; None: its files do not tell."""
        with self._about() as model:
            return {0: False, 1: True}.get(_lib.dit_model_edits(model.pointer))

    def edited_size(self, width: int, height: int) -> tuple[int, int] | None:
        """The size of a picture that is made after a reference of this size, in pixels; None: the model has no such size."""
        size = u32(_whole("width", width)), u32(_whole("height", height))
        with self._about() as model:
            found = _lib.dit_model_edited_size(model.pointer, c.byref(size[0]), c.byref(size[1]))
        return (size[0].value, size[1].value) if found else None

    @property
    def loras(self) -> list[Lora]:
        """Its LoRAs by their numbers."""
        infos: list[LoraInfo] = []
        with self._about() as model:
            while _lib.dit_model_lora(model.pointer, u32(len(infos)), c.byref(info := LoraInfo())) == OK:
                infos.append(info)
        return [_plain(Lora, info, weight=self._strengths.get(i, info.weight)) for i, info in enumerate(infos)]

    def add_lora(self, path: Place, weight: float = 1.0, second: bool = False) -> int:
        """Adds a LoRA to the loaded model and returns its number; calls from then on have it. It waits for the calls about
        the model that are under way in other threads, but not for jobs. second: it is for transformer_2."""
        number, error, model = u32(), Error(), self._use()
        try:
            with self._gate.alone():
                component = _lora(LoraFile(path, weight, False, second), model.hooks, model.kept)
                _check(model.hooks.call(_lib.dit_model_add_lora, model.pointer, c.byref(component), c.byref(number), c.byref(error)), error)
                _lib.dit_model_get_info(model.pointer, c.byref(self.info))
        finally:
            model.drop()
        return number.value

    def set_lora_weight(self, number: int, weight: float) -> None:
        """Gives a LoRA another strength in calls that say no lora_weights; below 0 leads away from it."""
        loras = self.loras
        if not 0 <= number < len(loras):
            raise ValueError(f"there is no LoRA {number}; the model has {len(loras)}")
        if loras[number].merged:
            raise ValueError(f"{loras[number].name} is merged, part of the weights for good")
        self._strengths[number] = _real("weight", weight)

    def remove_lora(self, number: int) -> None:
        """Leaves a LoRA out of the calls from now on. It costs nothing then, but its memory, which is freed with the model's."""
        self.set_lora_weight(number, 0)

    def encode(self, prompt: str, weighted: bool = False) -> bytes:
        """Bytes that stand for a prompt in generate(), on a machine without the text encoders too; a file may keep them.
        weighted: as prompt_weights."""
        size, error, words = size_t(), Error(), _text(prompt.encode())
        encode = _lib.dit_encode_weighted_prompt if weighted else _lib.dit_encode_prompt
        with self._about(on_device=True) as model:
            def write(room):
                _check(model.hooks.call(encode, model.parent.pointer, model.pointer, words, room, c.byref(size), c.byref(error)), error)

            write(None)  # the size, which all prompts of a model share
            blob = c.create_string_buffer(size.value)
            write(blob)
        return blob.raw

    def encoding(self, prompt: str, weighted: bool = False) -> Encoding:
        """encode() in pieces, so that the next prompt is encoded beside a job."""
        return Encoding(self, prompt, weighted)

    def generate(self, prompt: str | bytes | None = "", negative_prompt: str | bytes | None = None, width: int | None = 0,
                 height: int | None = 0, steps: int | None = 0, seed: int = 0, guidance: float | Mapping[str, float] | None = 0.0, count: int = 1, sampler: str | None = None,
                 schedule: str | None = None, classes: Sequence[int | str] | None = None,
                 progress: Callable[[float, int, int], Any] | None = None, **more: Any) -> list[Picture]:
        """`count` pictures with the seeds seed, seed + 1…; zeros and None stand for the model's defaults. A model of
        clips makes single pictures.

        Prompts are strings, or bytes of encode(). classes: labels or names of a class-conditional model, one for each
        picture. guidance: its scale, or members of dit_guidance by name, as {"scale": 4, "rescale": 0.7}.
        progress(fraction, step, steps) is called while the device works; if it returns False, DitError with result 2
        (cancelled) ends the call. More parameters are those of dit_job_desc in dit.h:

        init, mask, control    a Picture, or what numpy reads as uint8 [height, width, 3 or 4], or for masks [height, width];
                               or a list, the frames of a clip
        references             a list of pictures, or of clips
        strength, control_strength, shift, eta, clip_skip, cache, split, resume_on_loss, vae_tile, prompt_weights
        rng                    "torch", as diffusers' scripts have it, or "philox", as graphical front ends
        preview                preview(picture, step) is shown the picture after every so many steps: preview_interval, or 1;
                               preview_kind: "proj", which costs nearly nothing, "tae", or "vae"
        distilled              guidance.distilled
        lora_weights           a number for each LoRA
        adapters               a list of Controls: control nets at work
        inputs                 {"noise": array}: Tensors, or arrays of numpy, in place of what dit would compute;
                               "image_latents": [count or 1, C, h, w], what Job.latent() gives, in place of init
        state                  bytes of Job.save_state(): the steps that were finished then are left out
        mask_strategy, loop_count, loop_frames, loop_edit, float_frames: of clips
        no_sound               a clip is made without the sound that clip() and Job.sound() give
        """
        preview = more.pop("preview", None)
        more["preview_interval"] = more.get("preview_interval", 1) if preview else 0
        more.setdefault("no_sound", True)  # a picture has none
        with Job(self, dict(more, prompt=prompt, negative_prompt=negative_prompt, width=width, height=height, steps=steps, seed=seed,
                            guidance=guidance, count=count, sampler=sampler, schedule=schedule, classes=classes, frames=1)) as job:
            job._run(progress, preview)
            return job.pictures()

    def clip(self, prompt: str | bytes = "", frames: int = 0, fps: float = 0.0, **more: Any) -> Clip:
        """The frames of a clip, as a list of Pictures that has the clip's sound, too, where the model makes one (Clip.sound);
        other parameters are those of generate() but count. frames: such a number as the model can make; 0: the model's.
        fps: frames of a second."""
        if "count" in more:
            raise TypeError("clip() has no parameter count: it makes one clip")
        progress, preview = more.pop("progress", None), more.pop("preview", None)
        more["preview_interval"] = more.get("preview_interval", 1) if preview else 0
        with Job(self, dict(more, prompt=prompt, frames=frames, fps=fps)) as job:
            job._run(progress, preview)
            made = Clip(job.pictures())
            if job.status.sound_samples:
                made.sound, made.sound_rate = job.sound(), self.info.sound_rate
            return made

    def job(self, prompt: str | bytes | None = "", frames: int = 1, **more: Any) -> Job:
        """A Job that makes what generate() makes, or clip() with other frames: for work in pieces, other prompts without planning
        anew, floats, latents, and pictures that stay on the device. Other parameters are those of generate() but progress
        and preview; preview_interval: steps from one preview to the next; target: a Target for dit_job_desc.target; keep_state:
        save_state() is asked for."""
        return Job(self, dict(more, prompt=prompt, frames=frames))

    def memory(self, frames: int = 1, **more: Any) -> Memory:
        """The memory that generate() with these parameters needs, or clip() with other frames; nothing is allocated."""
        desc, error, memory = JobDesc(), Error(), Memory()
        keep: list[Any] = []
        with self._about() as model:
            self._describe(desc, model, dict(more, frames=frames), keep)
            _check(model.hooks.call(_lib.dit_job_memory, model.parent.pointer, c.byref(desc), c.byref(memory), c.byref(error)), error)
        return memory

    def inspect(self, frames: int = 1, **more: Any) -> tuple[list[Op], list[Planned]]:
        """Every dispatch of such a job in order, and every tensor that it keeps on the device; nothing is allocated."""
        desc, error = JobDesc(), Error()
        keep: list[Any] = []
        ops: list[Op] = []
        tensors: list[Planned] = []

        def hear_op(info, _):
            op = info.contents
            ops.append(_plain(Op, op, number=op.index, kind=OP_KINDS[op.kind], shape=tuple(size for size in op.shape if size)))

        def hear_tensor(info, _):
            tensors.append(_plain(Planned, info.contents, type=_TYPE_NAMES.get(info.contents.type, "")))

        with self._about() as model:
            self._describe(desc, model, dict(more, frames=frames), keep)
            told = model.hooks.told
            inspector = Inspector(INSPECT_OP(lambda *info: told(hear_op, *info)), INSPECT_TENSOR(lambda *info: told(hear_tensor, *info)))
            _check(model.hooks.call(_lib.dit_job_inspect, model.parent.pointer, c.byref(desc), c.byref(inspector), c.byref(error)), error)
        return ops, tensors

    def frames(self, wanted: int = 0) -> int:
        """The number of frames next to this one that clip() can make; 0: the model's."""
        with self._about() as model:
            return u32(_lib.dit_model_frames(model.pointer, u32(_whole("wanted", wanted)))).value

    def _class(self, model, label):
        number = _lib.dit_model_class(model.pointer, _text(label.encode())) if isinstance(label, str) else _whole("a class", label, 31)
        if number < 0:
            raise ValueError(f"the model has no class {label!r}")
        return number

    def _describe(self, desc, model, what, keep):
        """Fills desc from parameters of job(), all of which must be known; what desc points to is in keep."""
        take = what.pop
        desc.model = model.pointer
        desc.frame_count, desc.fps = _whole("frames", take("frames", 1)), _real("fps", take("fps", 0))
        kind, rng = take("preview_kind", None), take("rng", None)
        for name, value, known in (("preview_kind", kind, PREVIEWS), ("rng", rng, RNGS)):
            if value not in known:
                raise ValueError(f"{name} is {value!r}; it must be one of {', '.join(map(repr, known))}")
        desc.preview, desc.rng = PREVIEWS[kind], RNGS[rng]
        size = self._given_pictures(desc, take, keep)
        classes, count = take("classes", None), take("count", 1) or 1
        labels = None if classes is None else list(classes)
        if labels is not None and len(labels) != count:
            raise ValueError(f"classes has {len(labels)} labels for {count} pictures")
        desc.image_count = _whole("count", count)
        desc.width = _whole("width", take("width", 0)) or (size.width if size else self.info.default_width)
        desc.height = _whole("height", take("height", 0)) or (size.height if size else self.info.default_height)
        desc.seed = _whole("seed", take("seed", 0), 64, none=None)
        guidance = take("guidance", 0)
        for name, value in (guidance if isinstance(guidance, Mapping) else {"scale": guidance}).items():
            if name not in (field for field, _ in Guidance._fields_):
                raise ValueError(f"guidance has no {name!r}; it has {', '.join(field for field, _ in Guidance._fields_)}")
            exact = {"skip_blocks": lambda: _whole(name, value, 64), "dynamic": lambda: bool(value)}
            setattr(desc.guidance, name, exact.get(name, lambda: _real("guidance" if name == "scale" else name, value))())
        distilled = _real("distilled", take("distilled", 0))
        desc.guidance.distilled = distilled or desc.guidance.distilled
        prompt = take("prompt", "")
        for name, value in (("", prompt if labels is None else None), ("negative_", take("negative_prompt", None))):
            if isinstance(value, bytes):
                keep.append(value)
                setattr(desc, name + "conditioning", c.cast(value, pointer))
                setattr(desc, name + "conditioning_size", len(value))
            elif value is not None:
                setattr(desc, name + "prompt", _text(value.encode()))
        for name in ("sampler", "schedule", "cache", "split", "mask_strategy"):
            value = take(name, None)
            setattr(desc, name, _text(value.encode()) if value else None)
        for name in ("strength", "control_strength", "shift", "eta", "loop_edit"):
            setattr(desc, name, _real(name, take(name, 0)))
        for name in ("steps", "clip_skip", "vae_tile", "preview_interval", "loop_count", "loop", "loop_frames"):
            setattr(desc, name, _whole(name, take(name, 0)))
        for name in ("prompt_weights", "float_frames", "resume_on_loss", "no_sound", "keep_state"):
            setattr(desc, name, bool(take(name, False)))
        state = take("state", None)
        if state is not None:
            keep.append(bytes(memoryview(state)))
            desc.state, desc.state_size = c.cast(keep[-1], pointer), len(keep[-1])
        if labels is not None:
            desc.class_labels = (c.c_int32 * count)(*(self._class(model, label) for label in labels))
        weights = take("lora_weights", None)
        if weights is None and self._strengths:
            weights = [self._strengths.get(i, lora.weight) for i, lora in enumerate(self.loras)]
        if weights is not None:
            desc.lora_weights, desc.lora_weight_count = (c.c_float * len(weights))(*weights), len(weights)
        inputs = [_input(name, value, keep) for name, value in (take("inputs", None) or {}).items()]
        if inputs:
            desc.inputs, desc.input_count = (_Tensor * len(inputs))(*inputs), len(inputs)
        target = take("target", None)
        if target is not None:
            desc.target = target
        if what:
            raise TypeError(f"there is no parameter {', '.join(what)}")

    def _given_pictures(self, desc, take, keep):
        """Fills the members of desc that have pictures; returns the one that the size is taken from, or None."""
        size = None
        for name in ("init", "mask", "control"):
            value = take(name, None)
            if value is not None:
                images, count = _images(name, value, keep)
                setattr(desc, name if name == "mask" else name + "_image", images)
                setattr(desc, name + "_count", count)
                size = size or images[0]
        references = [_images("references", one, keep) for one in take("references", None) or ()]
        if references:
            desc.references = (Reference * len(references))(*(Reference(*one) for one in references))
            desc.reference_count = len(references)
        nets = [net if isinstance(net, Control) else Control(net) for net in take("adapters", None) or ()]
        if any(not net.weight for net in nets):
            raise ValueError("the weight of a Control is 0, which C takes for 1: leave it out")
        if nets:
            desc.adapters = (Adapter * len(nets))(*(Adapter(
                _whole("number", net.number), _real("weight", net.weight), _real("first", net.first), _real("last", net.last),
                _whole("mode", net.mode), _image("adapters", net.picture, keep)) for net in nets))
            desc.adapter_count = len(nets)
        return size


def _input(name, value, keep):
    """A dit_tensor of a Tensor, or of an array of numpy; `keep` holds its bytes."""
    if not isinstance(value, Tensor):
        import numpy
        array = numpy.ascontiguousarray(value)
        types = {numpy.dtype(code): kind for kind, code in _DTYPES.items()}
        if array.dtype not in types:
            raise ValueError(f"{name} is {array.dtype}; it must be float32, float16, int32 or int64, or a Tensor")
        value = Tensor(array.shape, array.tobytes(), types[array.dtype])
    if value.type not in TYPES or not 1 <= len(value.shape) <= 5:
        raise ValueError(f"{name} is {value.type} {list(value.shape)}; it must have one of TYPES, and 1 to 5 sizes")
    count, sizes = 1, {"F32": 4, "F16": 2, "BF16": 2, "I32": 4, "I64": 8}
    for length in value.shape:
        count *= length
    if value.type in sizes and len(value.data) != count * sizes[value.type]:
        raise ValueError(f"{name} has {len(value.data)} bytes; {value.type} {list(value.shape)} has {count * sizes[value.type]}")
    keep.append(value.data)
    return _Tensor(_text(name.encode()), TYPES[value.type], len(value.shape), (u64 * 5)(*value.shape), c.cast(value.data, pointer))


class Encoding(_Owner):
    """A prompt that is encoded in pieces. One thread at a time."""

    def __init__(self, model, prompt, weighted):
        words, self._lock = _text(prompt.encode()), threading.RLock()
        with model._gate.shared():
            parent = model._on_device()
            handle = _Handle(_lib.dit_encoding_destroy, parent.hooks, parent)
            self._own(handle, _lib.dit_encoding_create, parent.parent.pointer, parent.pointer, words, bool(weighted))
            size, error = size_t(), Error()
            _check(handle.hooks.call(_lib.dit_encode_prompt, parent.parent.pointer, parent.pointer, words, None, c.byref(size), c.byref(error)), error)
        self._blob = c.create_string_buffer(size.value)

    def step(self, budget_us: int = 0) -> bytes | None:
        """Submits the next piece and waits for nothing; None: call it again. Then what encode() gives. budget_us: microseconds
        of GPU work to have in flight; 0: one slice."""
        size, error, handle = size_t(len(self._blob)), Error(), self._use()
        try:
            with self._lock:
                result = _check(handle.hooks.call(_lib.dit_encoding_step, handle.pointer, u32(_whole("budget_us", budget_us)), self._blob,
                                                  c.byref(size), c.byref(error)), error)
        finally:
            handle.drop()
        return self._blob.raw if result == OK else None


class Job(_Owner):
    """A request of Model.job: pictures or a clip, planned once. One thread at a time steps, waits, reads and restarts it; any
    thread may cancel it, and ask for status and counters."""

    def __init__(self, model, what):
        self._model, self._what, self._lock, self._desc, keep = model, what, threading.RLock(), JobDesc(), []
        with model._gate.shared():
            parent = model._on_device()
            handle = _Handle(_lib.dit_job_destroy, parent.hooks, parent)
            try:
                model._describe(self._desc, parent, dict(what), keep)
                self._desc.progress = handle.hooks.progress()
            except BaseException:
                handle.drop()
                raise
            self._own(handle, _lib.dit_job_create, parent.parent.pointer, c.byref(self._desc))
        if self._what.pop("state", None) is not None:  # a restart begins with step 1, and keeps as this run does
            self._what["keep_state"] = True

    def _call(self, function, *arguments, run=False):
        """Calls a function about the job. run: its message is the run's, which status has; else its last argument is."""
        error, handle = Error(), self._use()
        try:
            with self._lock:
                result = handle.hooks.call(function, handle.pointer, *arguments, *([] if run else [c.byref(error)]))
                if run and result < 0:
                    _lib.dit_job_status(handle.pointer, None, c.byref(error))
                return _check(result, error)
        finally:
            handle.drop()

    def _tell(self, function, *arguments):
        handle = self._use()
        try:
            return function(handle.pointer, *arguments)
        finally:
            handle.drop()

    def step(self, budget_us: int = 0) -> bool:
        """Submits the next piece and returns at once; True: the job is finished. budget_us: microseconds of GPU work to have in
        flight at most; 0: one slice."""
        return self._call(_lib.dit_job_step, u32(_whole("budget_us", budget_us)), run=True) == OK

    def wait(self, seconds: float | None = None) -> bool:
        """Steps the job and waits for it, so long at most, or to its end; True: it is finished. Ctrl-C ends the call."""
        end = None if seconds is None else time.monotonic() + seconds
        while True:
            left = 0.05 if end is None else min(max(end - time.monotonic(), 0), 0.05)  # Python runs a signal's handler between two
            if self._call(_lib.dit_job_wait, u64(int(left * 1e9)), run=True) == OK:
                return True
            if end is not None and time.monotonic() >= end:
                return False

    def warm_up(self) -> None:
        """Runs every pipeline once, before the run begins, so that no later call pays for what drivers do then."""
        self._call(_lib.dit_job_warm_up)

    def cancel(self) -> None:
        """Asks the job to stop: its thread gets DitError with result 2 within one slice. Any thread."""
        self._tell(_lib.dit_job_cancel)

    def restart(self, **more: Any) -> None:
        """Runs the job again with another prompt, negative_prompt, seed, rng, guidance, inputs, lora_weights, loop, classes or
        target; what is not said stays as it was. Everything else must be as before."""
        what, desc = dict(self._what, **more), JobDesc()
        keep: list[Any] = []
        with self._lock, self._model._about() as model:
            self._model._describe(desc, model, dict(what), keep)
            desc.progress = model.hooks.progress()
            self._call(_lib.dit_job_restart, c.byref(desc))
        self._what, self._desc = what, desc

    def save_state(self) -> bytes | None:
        """Bytes from which an equal job goes on behind the newest step that was seen finished, as its state, in another process
        too; the job was made with keep_state or state. None: no step has begun."""
        size = size_t()
        self._call(_lib.dit_job_save_state, None, c.byref(size))  # the size, which stays the same
        blob = c.create_string_buffer(size.value)
        return blob.raw if self._call(_lib.dit_job_save_state, blob, c.byref(size)) == OK else None

    @property
    def status(self) -> Status:
        """How far the job is. Any thread."""
        status = Status()
        self._tell(_lib.dit_job_status, c.byref(status), None)
        return status

    @property
    def counters(self) -> Counters:
        """Its cost so far. Any thread."""
        counters = Counters()
        self._tell(_lib.dit_job_get_counters, c.byref(counters))
        return counters

    @property
    def shares(self) -> list[Share]:
        """The part of each device in it, the first one first."""
        handle = self._use()
        try:
            return [_plain(Share, info) for info in _listed(_Share, _lib.dit_job_shares, handle.pointer)]
        finally:
            handle.drop()

    @property
    def overlap(self) -> int:
        """Frames at the beginning of each later clip of loop_count that are also the last ones of the clip before."""
        with self._lock:
            return u32(self._tell(_lib.dit_job_overlap)).value

    def picture(self, image: int = 0, frame: int = 0) -> Picture:
        """A picture of the finished job, or a frame below status.frame of its clip."""
        return self._read(image, frame, self._desc.width, self._desc.height)

    def pictures(self) -> list[Picture]:
        """All pictures of the finished job; of clips all frames, one clip after the other."""
        return [self.picture(image, frame) for image in range(self._desc.image_count) for frame in range(self.status.frame_count)]

    def floats(self, image: int = 0, frame: int = 0) -> Tensor:
        """The decoder's output as F32 [height, width, 3], sRGB in 0..1, not clamped; of clips with float_frames."""
        shape = (self._desc.height, self._desc.width, 3)
        return Tensor(shape, self._bytes(READ_RGB_F32, image, frame, shape[0] * shape[1] * 12))

    def latent(self, image: int = 0) -> Tensor:
        """The sampler's last x as F32 [C, h, w], of clips [C, latent frames, h, w], before scaling and shift."""
        info = self._model.info
        plane = info.latent_channels, self._desc.height // info.latent_factor, self._desc.width // info.latent_factor
        try:
            return Tensor(plane, self._bytes(READ_LATENT_F32, image, 0, plane[0] * plane[1] * plane[2] * 4))
        except DitError as error:  # a clip's: the message names the bytes that it needs
            known = [int(number) for number in re.findall(r"needs (\d+) bytes", str(error))]
            if not known:
                raise
        shape = plane[0], known[0] // (plane[0] * plane[1] * plane[2] * 4), *plane[1:]
        return Tensor(shape, self._bytes(READ_LATENT_F32, image, 0, known[0]))

    def sound(self, image: int = 0) -> Tensor:
        """The sound of the finished clip as F32 [samples, channels] in -1..1; info.sound_rate of the model is the samples of a
        second, 0 where it makes none."""
        shape = self.status.sound_samples, self._model.info.sound_channels
        return Tensor(shape, self._bytes(READ_SOUND_F32, image, 0, shape[0] * shape[1] * 4))

    def preview(self) -> Picture | None:
        """The newest preview; None: there is none yet."""
        output = Output()
        if self._call(_lib.dit_job_preview, c.byref(output), run=True) == WORKING:
            return None
        return self._read(0, 0, output.width, output.height, READ_PREVIEW)

    def _read(self, image, frame, width, height, what=READ_RGBA8):
        return Picture(width, height, self._bytes(what, image, frame, width * height * 4))

    def _bytes(self, what, image, frame, size):
        room = (c.c_uint8 * size)()
        result = self._call(_lib.dit_job_read, what, u32(_whole("image", image)), u32(_whole("frame", frame)), room, size_t(size), size_t(0))
        if result == WORKING:
            raise DitError("the job is not finished", WORKING)
        return bytes(room)

    def _run(self, progress, preview):
        """To the end, with hooks that are called about 20 times a second."""
        shown = 0
        while not self.wait(0.05):  # ctypes lets other threads of Python run meanwhile
            shown = self._told(progress, preview, shown)
        self._told(progress, preview, shown)

    def _told(self, progress, preview, shown):
        status = self.status
        if preview and status.preview_id != shown:
            picture, shown = self.preview(), status.preview_id
            if picture:
                preview(picture, status.step)
        if progress and _is_no(progress(status.fraction, status.step, status.step_count)):
            self.cancel()
        return shown

    # ---- on a device of the application's: pictures that stay there, work in its command buffers ----

    def output(self, image: int = 0, frame: int = 0) -> Output | None:
        """The picture as an image on the device; None: its commands are not all submitted, or recorded."""
        output = Output()
        result = self._call(_lib.dit_job_output, u32(_whole("image", image)), u32(_whole("frame", frame)), c.byref(output), run=True)
        return output if result == OK else None

    def export(self, image: int = 0) -> Export:
        """The memory of a picture for another device or API; the job was made with target=Target(export_handle=). The
        handle is the caller's, a new one in each call."""
        export = Export()
        self._call(_lib.dit_job_export, u32(_whole("image", image)), c.byref(export))
        return export

    def record(self, commands: int, budget_us: int = 0) -> bool:
        """Appends the next piece to a VkCommandBuffer outside of a render pass; True: the whole job is recorded. budget_us:
        microseconds of GPU time."""
        return self._call(_lib.dit_job_record, pointer(commands), u32(_whole("budget_us", budget_us)), run=True) == OK

    def unrecord(self) -> None:
        """Takes the newest record() back, whose commands will never be submitted."""
        self._call(_lib.dit_job_unrecord, run=True)

    def record_took(self, microseconds: int) -> None:
        """Tells how long the commands of the oldest record() took that nothing was told about; 0: unknown."""
        self._call(_lib.dit_job_record_took, u32(_whole("microseconds", microseconds)), run=True)

    def retire(self, timeline: int = 0, value: int = 0) -> None:
        """Closes the job, and destroys it when the VkSemaphore timeline has come to value; waits for nothing. 0: when the
        commands that are submitted so far have finished."""
        handle = self._use()
        handle._destroy = lambda job: _lib.dit_job_retire(job, u64(timeline), u64(value))
        handle.drop()
        self.close()


class Clip(List["Picture"]):
    """The frames of a clip. sound: F32 [samples, channels] in -1..1, None: there is none; sound_rate: samples of a second."""
    sound: Tensor | None = None
    sound_rate: int = 0

    def save_sound(self, path: str | os.PathLike) -> None:
        """Writes the sound as a WAV file of 16 bits."""
        if self.sound is None:
            raise ValueError("the clip has no sound")
        values = struct.unpack(f"<{len(self.sound.data) // 4}f", self.sound.data)
        with wave.open(os.fspath(path), "wb") as file:
            file.setnchannels(self.sound.shape[1])
            file.setsampwidth(2)
            file.setframerate(self.sound_rate)
            file.writeframes(struct.pack(f"<{len(values)}h", *(round(32767 * min(max(value, -1), 1)) for value in values)))


class Picture:
    """sRGB pixels: rgba is bytes [height][width][4], alpha 255."""

    def __init__(self, width: int, height: int, rgba: bytes):
        self.width, self.height, self.rgba = width, height, rgba

    def numpy(self):
        """uint8 [height, width, 4]; a view of rgba."""
        import numpy
        return numpy.frombuffer(self.rgba, numpy.uint8).reshape(self.height, self.width, 4)

    def save(self, path: str | os.PathLike) -> None:
        """Writes a PNG."""
        row = self.width * 4
        lines = b"".join(b"\0" + self.rgba[y * row:(y + 1) * row] for y in range(self.height))
        with open(path, "wb") as file:
            file.write(b"\x89PNG\r\n\x1a\n")
            for kind, data in ((b"IHDR", struct.pack(">IIBBBBB", self.width, self.height, 8, 6, 0, 0, 0)),
                               (b"IDAT", zlib.compress(lines)), (b"IEND", b"")):
                file.write(struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)))
