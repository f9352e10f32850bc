"""Pictures from diffusion transformers, by the shared library of dit.h (`make lib`, or an installed libdit).

    import dit
    with dit.Context() as context, context.load("models/emoji-q8_0.gguf") as model:
        picture = model.generate("fox, fluent style on a purple background", seed=7)[0]
        picture.save("fox.png")
        pixels = picture.numpy()            # uint8 [height, width, 4], where numpy is installed
        other = model.generate("owl", init=picture, strength=0.6)[0]    # so may an array be, or an image of PIL

It needs Python 3.8 and nothing else. The structures below are those of dit.h 0.2 in the same order;
tests/packages.sh compares every size and offset with the C compiler's. The library is the one that DIT_LIBRARY
names, else that in this file's folder or prefix, else the system's.
"""
from __future__ import annotations

import ctypes as c
import ctypes.util
import glob
import operator
import os
import signal
import struct
import threading
import zlib
from typing import Any, Callable, Iterable, Mapping, NamedTuple, Sequence

VERSION = 200  # of the declarations below: major * 10000 + minor * 100 + patch
OK, WORKING, CANCELLED = 0, 1, 2
READ_RGBA8, READ_PREVIEW = 0, 3
PROGRESS = c.CFUNCTYPE(c.c_bool, c.c_char_p, c.c_uint64, c.c_uint64, c.c_void_p)
LOG = c.CFUNCTYPE(None, c.c_int, c.c_char_p, c.c_void_p)
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


class ContextDesc(c.Structure):
    _fields_ = _fields([
        (u32, "_zero_begin"), (text, "devices"), (pointer, "vulkan"), (u32, "vulkan_count"),
        (u32, "transport_rank,transport_rank_count"), (pointer * 4, "transport"), (pointer * 3, "allocator"),
        (pointer * 3, "device_allocator"), (Logger, "logger"), (pointer * 2, "worker"), (Progress, "progress"),
        (pointer, "cache"), (size_t, "cache_size"), (pointer * 2, "marker"), (pointer, "mark"), (size_t, "mark_size"),
        (u64, "device_memory_limit"), (u32, "frames_in_flight,max_slice_us"), (text, "overrides"),
        (flag, "tune,trace,trace_light"), (u32, "_zero_end")])


class Source(c.Structure):
    _fields_ = _fields([(text, "path"), (pointer, "data"), (u64, "size"), (pointer, "read_at,open,user")])


class ModelDesc(c.Structure):
    _fields_ = _fields([
        (u32, "_zero_begin"), (Source, "source"), (pointer, "components"), (u32, "component_count"), (pointer, "types"),
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


class DeviceInfo(c.Structure):
    _fields_ = _fields([(c.c_char * 256, "name"), (c.c_uint8 * 16, "uuid"), (u32, "vendor,type,api_version,driver_version"),
                        (u64, "memory"), (c.c_char * 32, "rung")])


class Component(c.Structure):
    _fields_ = _fields([(Source, "source"), (c.c_int, "role"), (f32, "weight"), (flag, "merge"), (c.c_int, "lora_of")])


class Image(c.Structure):
    _fields_ = _fields([(u32, "width,height"), (text, "rgba"), (size_t, "row_pitch"), (u64, "image"), (u32, "layout,format"),
                        (pointer, "rgb")])


class Reference(c.Structure):
    _fields_ = _fields([(c.POINTER(Image), "frames"), (u32, "frame_count")])


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
        (pointer, "negative_conditioning"), (size_t, "negative_conditioning_size"), (pointer, "inputs"),
        (u32, "input_count,width,height,frame_count"), (f32, "fps"), (u32, "image_count,steps"), (text, "sampler,schedule"),
        (Guidance, "guidance"), (f32, "shift,eta"), (u32, "clip_skip"), (u64, "seed"), (c.c_int, "rng"),
        (c.POINTER(Image), "init_image"), (u32, "init_count"), (c.POINTER(Image), "mask"), (u32, "mask_count"), (f32, "strength"),
        (c.POINTER(Image), "control_image"), (u32, "control_count"), (f32, "control_strength"), (c.POINTER(Reference), "references"), (u32, "reference_count"), (text, "mask_strategy"), (u32, "loop_count,loop,loop_frames"), (f32, "loop_edit"),
        (flag, "float_frames"), (c.POINTER(c.c_float), "lora_weights"), (u32, "lora_weight_count"),
        (pointer, "adapters"), (u32, "adapter_count"), (text, "split"), (flag, "resume_on_loss"), (flag, "keep_state"), (pointer, "state"), (size_t, "state_size"), (text, "cache"),
        (u32, "preview_interval"), (c.c_int, "preview"), (u32, "vae_tile"), (flag, "no_sound"), (Target, "target"), (Progress, "progress"), (u32, "_zero_end")])


class Status(c.Structure):
    _fields_ = _fields([
        (u32, "step,step_count"), (f32, "fraction"), (u32, "last_slice_us,recorded_us,preview_id,frame,frame_count,reruns"),
        (text, "rerun_op"), (u32, "failed_devices"), (c.c_int, "result,stage"), (u32, "reused,sound_samples")])


class Output(c.Structure):
    _fields_ = _fields([(u64, "image,view"), (u32, "format,layout,width,height"), (u64, "timeline,value"), (u32, "device"), (flag, "final")])


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
    for name in "dit_context_destroy dit_model_get_info dit_model_destroy dit_job_status dit_job_cancel dit_job_destroy".split():
        getattr(library, name).restype = None
    library.dit_sampler_name.restype = library.dit_schedule_name.restype = text
    return library


_lib = _load()


def _check(result, error):
    if result < 0:
        raise DitError(error.message.decode("utf-8", "replace") or f"dit_result {result}", result)
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
    """A Vulkan device. rung: the best kernels that it can run, "none" if dit cannot use it. memory: bytes."""
    name: str
    rung: str
    memory: int
    uuid: str

    @classmethod
    def _of(cls, info):
        return cls(info.name.decode("utf-8", "replace"), info.rung.decode(), info.memory, bytes(info.uuid).hex())


def devices() -> list[Device]:
    """The devices of this machine, in the order by which Context counts them."""
    count, error = u32(), Error()
    _check(_lib.dit_device_list(None, c.byref(count), c.byref(error)), error)
    infos = (DeviceInfo * count.value)()
    _check(_lib.dit_device_list(infos, c.byref(count), c.byref(error)), error)
    return [Device._of(info) for info in infos[:count.value]]


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

    def __init__(self, log=None):
        self._thread = threading.local()  # what was raised in it
        self.log = LOG(lambda level, message, _: self._hook(log, level, message.decode("utf-8", "replace"))) if log else LOG()

    def progress(self, func=None):
        return Progress(PROGRESS(lambda what, *numbers: not _is_no(self._hook(func, what.decode("utf-8", "replace"), *numbers[:2]))))

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
        self.pointer, self.hooks, self.parent = pointer(), hooks, parent
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

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def __del__(self):
        self.close()

    def close(self):
        """What uses it still, a model of a context or generate() in another thread, may go on."""
        handle = self.__dict__.pop("_handle", None)
        if handle:
            handle.drop()

    def _use(self):
        handle = self.__dict__.get("_handle")
        if not handle:
            raise DitError(f"the {type(self).__name__.lower()} is closed", -1)
        return handle.take()


class Context(_Owner):
    """A device, or several, and its pipelines. devices: a number in devices(), part of a name, or "uuid:" and its digits;
    or a list of these. log(level, message) hears messages up to `level`. cache: what save_cache() gave at the last start.
    memory_limit: bytes of device memory. progress(what, done, total): False cancels."""

    def __init__(self, devices: str | int | Sequence[str | int] | None = None,
                 log: Callable[[int, str], Any] | None = None, level: int = 2, overrides: str | None = None, cache: bytes | None = None, memory_limit: int = 0,
                 progress: Callable[[str, int, int], Any] | None = None):
        desc, hooks = ContextDesc(), _Hooks(log)
        if isinstance(devices, (list, tuple)):
            devices = ",".join(map(str, devices))
        desc.devices = _text(str(devices).encode()) if devices is not None else None
        desc.overrides = _text(overrides.encode()) if overrides else None
        desc.logger.func, desc.logger.max_level = hooks.log, level
        desc.cache, desc.cache_size = c.cast(cache, pointer), len(cache or b"")
        desc.device_memory_limit = _whole("memory_limit", memory_limit, 64)
        desc.progress = hooks.of_context = hooks.progress(progress)  # the library calls it for as long as the context lives
        self._own(_Handle(_lib.dit_context_destroy, hooks), _lib.dit_context_create, c.byref(desc))

    def load(self, path: str | os.PathLike | None, weight_budget: int = 0, components: Mapping[str, str | os.PathLike] | None = None,
             loras: Iterable[str | os.PathLike | tuple[str | os.PathLike, float]] = (), release_text_encoders: bool = False,
             parts: Iterable[str] | None = None, progress: Callable[[str, int, int], Any] | None = None) -> Model:
        """A model from a file or a diffusers folder. weight_budget: bytes of device memory; the rest is streamed.

        components: parts that lie elsewhere, as {"vae": path}; names are those of ROLES. parts: the only ones to be loaded, as
        ("transformer", "vae") where prompts are encoded. loras: paths, or pairs of a path and a weight. progress(part, done, total) counts bytes; if it returns False, DitError with result 2 ends the call.
        """
        return Model(self, path, weight_budget, components or {}, loras, release_text_encoders, parts or (), progress)

    @property
    def device(self) -> Device:
        """The first device, with the kernels in use."""
        info, error, handle = DeviceInfo(), Error(), self._use()
        try:
            _check(_lib.dit_context_device(handle.pointer, c.byref(info), c.byref(error)), error)
        finally:
            handle.drop()
        return Device._of(info)

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


# The names of parts, as diffusers' folders have them, and their dit_role.
ROLES = {"transformer": 1, "text_encoder": 2, "text_encoder_2": 3, "text_encoder_3": 4, "tokenizer": 5, "tokenizer_2": 6,
         "tokenizer_3": 7, "vae": 8, "tae": 9, "scheduler": 10, "controlnet": 12, "transformer_2": 13, "image_encoder": 14}
_LORA = 11
PREVIEWS = {None: 0, "proj": 1, "tae": 2, "vae": 3}


class Model(_Owner):
    """Weights. `info` tells its family, sizes and defaults (dit_model_info)."""

    def __init__(self, context, path, weight_budget, components, loras, release_text_encoders, parts, progress):
        desc, parent, given = ModelDesc(), context._use(), []  # a context lives as long as its models
        handle = _Handle(_lib.dit_model_destroy, parent.hooks, parent)
        try:
            for name in (*components, *parts):
                if name not in ROLES:
                    raise ValueError(f"there is no component {name!r}; there are {', '.join(ROLES)}")
            for name, place in components.items():
                given.append(Component(Source(_text(os.fsencode(place))), ROLES[name]))
            for lora in loras:
                place, weight = lora if isinstance(lora, tuple) else (lora, 1)
                if not weight:
                    raise ValueError(f"the weight of {place} is 0, which C takes for 1: say so in lora_weights of generate()")
                given.append(Component(Source(_text(os.fsencode(place))), _LORA, weight))
            desc.source.path = _text(os.fsencode(path)) if path is not None else None
            desc.weight_budget = _whole("weight_budget", weight_budget, 64)
            desc.release_text_encoders, desc.progress = release_text_encoders, parent.hooks.progress(progress)
            desc.parts = sum(1 << ROLES[name] for name in set(parts))
            array = (Component * len(given))(*given)
            desc.components, desc.component_count = c.cast(array, pointer) if given else None, len(given)
        except BaseException:
            handle.drop()
            raise
        self._own(handle, _lib.dit_model_load, parent.pointer, c.byref(desc))
        self.info = ModelInfo()
        _lib.dit_model_get_info(handle.pointer, c.byref(self.info))

    def encode(self, prompt: str, weighted: bool = False) -> bytes:
        """Bytes that stand for a prompt in generate(), on a machine without the text encoders too. weighted: as
        prompt_weights."""
        size, error, model = size_t(), Error(), self._use()
        encode = _lib.dit_encode_weighted_prompt if weighted else _lib.dit_encode_prompt
        try:
            words = _text(prompt.encode())
            for blob in (None, True):  # the size, which all prompts of a model share, then the bytes
                blob = blob and c.create_string_buffer(size.value)
                _check(model.hooks.call(encode, model.parent.pointer, model.pointer, words, blob, c.byref(size), c.byref(error)),
                       error)
            return blob.raw
        finally:
            model.drop()

    def generate(self, prompt: str | bytes | None = "", negative_prompt: str | bytes | None = None, width: int | None = 0,
                 height: int | None = 0, steps: int | None = 0, seed: int = 0, guidance: float | None = 0.0, count: int = 1, sampler: str | None = None,
                 schedule: str | None = None, classes: Sequence[int | str] | None = None,
                 progress: Callable[[float, int, int], Any] | None = None, **more: Any) -> list[Picture]:
        """`count` pictures with the seeds seed, seed + 1…; zeros and None stand for the model's defaults. A model of
        clips makes single pictures.

        Prompts are strings, or bytes of encode(). classes: labels or names of a class-conditional model, one for each
        picture.
        progress(fraction, step, steps) is called while the device works; if it returns False, DitError with result 2
        (cancelled) ends the call. More parameters are those of dit_job_desc in dit.h:

        init, mask, control    a Picture, or what numpy reads as uint8 [height, width, 3 or 4], or for masks [height, width];
                               or a list, the frames of a clip
        references             a list of pictures, or of clips
        strength, shift, eta, cache, split, vae_tile, prompt_weights
        preview                preview(picture, step) is shown the picture after every so many steps: preview_interval, or 1;
                               preview_kind: "proj", which costs nearly nothing, "tae", or "vae"
        distilled              guidance.distilled
        lora_weights           a number for each LoRA
        """
        def make(job, desc, error):
            return [self._read(job, i, desc.width, desc.height, error) for i in range(desc.image_count)]

        return self._paint(make, progress, dict(more, prompt=prompt, negative_prompt=negative_prompt, width=width, height=height,
                                                steps=steps, seed=seed, guidance=guidance, count=count, sampler=sampler,
                                                schedule=schedule, classes=classes))

    def clip(self, prompt: str | bytes = "", frames: int = 0, fps: float = 0.0, **more: Any) -> list[Picture]:
        """The frames of a clip, as a list of Pictures; other parameters are those of generate() but count. frames: such a
        number as the model can make; 0: the model's."""
        def make(job, desc, error):
            status = Status()
            _lib.dit_job_status(job, c.byref(status), None)
            return [self._read(job, 0, desc.width, desc.height, error, i) for i in range(status.frame_count)]

        progress = more.pop("progress", None)
        if "count" in more:
            raise TypeError("clip() has no parameter count: it makes one clip")
        return self._paint(make, progress, dict(more, prompt=prompt), _whole("frames", frames), fps)

    def _paint(self, make, progress, what, frames=1, fps=0.0):
        """Runs a job; make(job, desc, error) reads its result."""
        desc, error, job, keep, model = JobDesc(), Error(), pointer(), [], self._use()
        try:
            preview = self._describe(desc, model, what, frames, fps, keep)
            desc.progress = model.hooks.progress()
            _check(model.hooks.call(_lib.dit_job_create, model.parent.pointer, c.byref(desc), c.byref(job), c.byref(error)), error)
            self._run(job, model.hooks, progress, preview, error)
            return make(job, desc, error)
        finally:
            _lib.dit_job_destroy(job)
            model.drop()

    def memory(self, frames: int = 1, **more: Any) -> Memory:
        """What generate() with these parameters needs, or clip() with other frames; nothing is allocated."""
        desc, error, memory, keep, model = JobDesc(), Error(), Memory(), [], self._use()
        try:
            self._describe(desc, model, more, _whole("frames", frames), more.pop("fps", 0), keep)
            _check(model.hooks.call(_lib.dit_job_memory, model.parent.pointer, c.byref(desc), c.byref(memory), c.byref(error)), error)
        finally:
            model.drop()
        return memory

    def frames(self, wanted: int = 0) -> int:
        """The number of frames next to this one that clip() can make; 0: the model's."""
        model = self._use()
        try:
            return u32(_lib.dit_model_frames(model.pointer, u32(_whole("wanted", wanted)))).value
        finally:
            model.drop()

    def _class(self, model, label):
        number = _lib.dit_model_class(model.pointer, _text(label.encode())) if isinstance(label, str) else _whole("a class", label, 31)
        if number < 0:
            raise ValueError(f"the model has no class {label!r}")
        return number

    def _describe(self, desc, model, what, frames, fps, keep):
        """Fills desc from parameters of generate(), all of which must be known; what desc points to is in keep. Returns the
        function that is shown previews."""
        take, size = what.pop, None
        desc.model, desc.frame_count, desc.fps = model.pointer, frames, _real("fps", fps)
        preview, kind = take("preview", None), take("preview_kind", None)
        desc.preview_interval = _whole("preview_interval", take("preview_interval", 1)) if preview else 0
        if kind not in PREVIEWS:
            raise ValueError(f"preview_kind is {kind!r}; it must be one of {', '.join(map(repr, PREVIEWS))}")
        desc.preview = PREVIEWS[kind]
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
        classes, count = take("classes", None), take("count", 1) or 1
        labels = None if classes is None else list(classes)
        if labels is not None and len(labels) != count:
            raise ValueError(f"classes has {len(labels)} labels for {count} pictures")
        desc.image_count = _whole("count", count)
        desc.width = _whole("width", take("width", 0)) or (size.width if size else self.info.default_width)
        desc.height = _whole("height", take("height", 0)) or (size.height if size else self.info.default_height)
        desc.steps, desc.seed = _whole("steps", take("steps", 0)), _whole("seed", take("seed", 0), 64, none=None)
        desc.guidance.scale, desc.guidance.distilled = _real("guidance", take("guidance", 0)), _real("distilled", take("distilled", 0))
        prompt = take("prompt", "")
        for name, value in (("", prompt if labels is None else None), ("negative_", take("negative_prompt", None))):
            if isinstance(value, bytes):
                keep.append(value)
                setattr(desc, name + "conditioning", c.cast(value, pointer))
                setattr(desc, name + "conditioning_size", len(value))
            elif value is not None:
                setattr(desc, name + "prompt", _text(value.encode()))
        for name in ("sampler", "schedule", "cache", "split"):
            value = take(name, None)
            setattr(desc, name, _text(value.encode()) if value else None)
        for name in ("strength", "shift", "eta"):
            setattr(desc, name, _real(name, take(name, 0)))
        desc.vae_tile, desc.prompt_weights = _whole("vae_tile", take("vae_tile", 0)), bool(take("prompt_weights", False))
        if labels is not None:
            desc.class_labels = (c.c_int32 * count)(*(self._class(model, label) for label in labels))
        weights = take("lora_weights", None)
        if weights is not None:
            desc.lora_weights, desc.lora_weight_count = (c.c_float * len(weights))(*weights), len(weights)
        if what:
            raise TypeError(f"there is no parameter {', '.join(what)}")
        return preview

    def _run(self, job, hooks, progress, preview, error):
        status, output, result, shown = Status(), Output(), WORKING, 0
        while result == WORKING:  # ctypes lets other threads of Python run meanwhile
            result = hooks.call(_lib.dit_job_wait, job, u64(50_000_000))
            _lib.dit_job_status(job, c.byref(status), c.byref(error))
            if preview and status.preview_id != shown and _lib.dit_job_preview(job, c.byref(output)) == OK:
                shown = status.preview_id
                preview(self._read(job, 0, output.width, output.height, error, what=READ_PREVIEW), status.step)
            if progress and _is_no(progress(status.fraction, status.step, status.step_count)):
                _lib.dit_job_cancel(job)
        _check(result, error)

    def _read(self, job, image, width, height, error, frame=0, what=READ_RGBA8):
        rgba = (c.c_uint8 * (width * height * 4))()
        _check(_lib.dit_job_read(job, what, u32(image), u32(frame), rgba, size_t(len(rgba)), size_t(0), c.byref(error)),
               error)
        return Picture(width, height, bytes(rgba))


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
