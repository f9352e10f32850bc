"""Pictures from diffusion transformers, by the shared library of dit.h (`make lib`, or an installed libdit).

    import dit
    with dit.Context() as context, context.load("models/emoji-q8_0.gguf") as model:
        picture = model.generate("fox, fluent style on a purple background", seed=7)[0]
        picture.save("fox.png")
        pixels = picture.numpy()            # uint8 [height, width, 4], where numpy is installed

It needs Python 3.8 and nothing else. The structures below are those of dit.h 0.2 in the same order;
tests/packages.sh compares every size and offset with the C compiler's. The library is the one that DIT_LIBRARY
names, else the system's.
"""
import ctypes as c
import ctypes.util
import os
import struct
import threading
import zlib

VERSION = 200  # of the declarations below: major * 10000 + minor * 100 + patch
OK, WORKING, CANCELLED = 0, 1, 2
READ_RGBA8 = 0
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
        (u32, "lora_count,control_count")])


class Guidance(c.Structure):
    _fields_ = _fields([
        (f32, "scale,distilled,rescale,skip_layer,first,last,project,norm_limit,skip_first,skip_last"),
        (u64, "skip_blocks"), (flag, "dynamic"), (f32, "low_scale,length_limit")])


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
        (pointer, "init_image"), (u32, "init_count"), (pointer, "mask"), (u32, "mask_count"), (f32, "strength"),
        (pointer, "control_image"), (u32, "control_count"), (f32, "control_strength"), (pointer, "references"), (u32, "reference_count"), (text, "mask_strategy"), (u32, "loop_count,loop,loop_frames"), (f32, "loop_edit"),
        (flag, "float_frames"), (c.POINTER(c.c_float), "lora_weights"), (u32, "lora_weight_count"),
        (pointer, "adapters"), (u32, "adapter_count"), (text, "split"), (flag, "resume_on_loss"), (text, "cache"),
        (u32, "preview_interval"), (c.c_int, "preview"), (u32, "vae_tile"), (Target, "target"), (Progress, "progress"), (u32, "_zero_end")])


class Status(c.Structure):
    _fields_ = _fields([
        (u32, "step,step_count"), (f32, "fraction"), (u32, "last_slice_us,recorded_us,preview_id,frame,frame_count,reruns"),
        (text, "rerun_op"), (u32, "failed_devices"), (c.c_int, "result,stage"), (u32, "reused")])


class DitError(RuntimeError):
    """A call failed; `result` is one of dit_result, the message names the culprit and what to do."""

    def __init__(self, message, result):
        super().__init__(message)
        self.result = result


def _load():
    path = os.environ.get("DIT_LIBRARY") or ctypes.util.find_library("dit")
    if not path:
        raise OSError("libdit is not installed: run `make install-lib` in dit.h's folder, or name it in DIT_LIBRARY")
    library = c.CDLL(path)
    if library.dit_version() // 100 != VERSION // 100:
        raise OSError(f"{path} is version {library.dit_version()}, dit.py is written for {VERSION}")
    for name in "dit_context_destroy dit_model_get_info dit_model_destroy dit_job_status dit_job_cancel dit_job_destroy".split():
        getattr(library, name).restype = None
    return library


_lib = _load()


def _check(result, error):
    if result < 0:
        raise DitError(error.message.decode("utf-8", "replace") or f"dit_result {result}", result)
    return result


def _text(encoded):
    """Bytes as C reads them: a NUL would cut them off, and a path would be that of another file."""
    if b"\0" in encoded:
        raise ValueError(f"there is a NUL in {encoded!r}")
    return encoded


def _whole(name, value, bits=32):
    """A number that C has room for: ctypes takes the lowest bits of any other, and a seed of -1 would be one."""
    if not 0 <= value < 1 << bits:
        raise ValueError(f"{name} is {value}; it must be 0 to {(1 << bits) - 1}")
    return value


class _Handle:
    """An object of the library, destroyed when its owner has closed it and no call and no child of it uses it any more:
    in any thread, and whichever of them Python collects first."""

    _lock = threading.RLock()  # of all counts; a collection may come in the middle of a call

    def __init__(self, destroy, pointer, parent=None, keeps=None):
        self.pointer, self.parent = pointer, parent
        self._destroy, self._keeps, self._users = destroy, keeps, 1

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
    """A device, or several ("0,1"), and its pipelines. log(level, message) hears messages up to `level`."""

    def __init__(self, devices=None, log=None, level=2, overrides=None):
        desc, error, out, hear = ContextDesc(), Error(), pointer(), None
        desc.devices = _text(devices.encode()) if devices else None
        desc.overrides = _text(overrides.encode()) if overrides else None
        if log:
            hear = LOG(lambda at, message, _: log(at, message.decode("utf-8", "replace")))
            desc.logger.func, desc.logger.max_level = hear, level
        _check(_lib.dit_context_create(c.byref(desc), c.byref(out), c.byref(error)), error)
        self._handle = _Handle(_lib.dit_context_destroy, out, keeps=hear)

    def load(self, path, weight_budget=0):
        """A model from a file or a diffusers folder. weight_budget: bytes of device memory; the rest is streamed."""
        return Model(self, path, weight_budget)


class Model(_Owner):
    """Weights. `info` tells its family, sizes and defaults (dit_model_info)."""

    def __init__(self, context, path, weight_budget):
        desc, error, out, parent = ModelDesc(), Error(), pointer(), context._use()  # lives as long as its models
        try:
            desc.source.path = _text(os.fsencode(path))
            desc.weight_budget = _whole("weight_budget", weight_budget, 64)
            _check(_lib.dit_model_load(parent.pointer, c.byref(desc), c.byref(out), c.byref(error)), error)
        except BaseException:
            parent.drop()
            raise
        self._handle = _Handle(_lib.dit_model_destroy, out, parent)
        self.info = ModelInfo()
        _lib.dit_model_get_info(out, c.byref(self.info))

    def generate(self, prompt="", negative_prompt=None, width=0, height=0, steps=0, seed=0, guidance=0.0, count=1,
                 sampler=None, schedule=None, classes=None, progress=None):
        """`count` pictures with the seeds seed, seed + 1…; zeros and None stand for the model's defaults. A model of
        clips makes single pictures.

        classes: labels of a class-conditional model, one for each picture. progress(fraction, step, steps) is called
        while the device works; if it returns False, DitError with result 2 (cancelled) ends the call.
        """
        labels, count = None if classes is None else list(classes), count or 1
        if labels is not None and len(labels) != count:
            raise ValueError(f"classes has {len(labels)} labels for {count} pictures")
        desc, error, job, model = JobDesc(), Error(), pointer(), self._use()
        try:
            desc.model, desc.image_count, desc.frame_count = model.pointer, _whole("count", count), 1
            desc.width = _whole("width", width) or self.info.default_width
            desc.height = _whole("height", height) or self.info.default_height
            desc.steps, desc.seed, desc.guidance.scale = _whole("steps", steps), _whole("seed", seed, 64), guidance
            desc.prompt = _text(prompt.encode()) if labels is None else None
            for name, value in (("negative_prompt", negative_prompt), ("sampler", sampler), ("schedule", schedule)):
                setattr(desc, name, _text(value.encode()) if value else None)
            if labels is not None:
                desc.class_labels = (c.c_int32 * count)(*(_whole("a class", label, 31) for label in labels))
            _check(_lib.dit_job_create(model.parent.pointer, c.byref(desc), c.byref(job), c.byref(error)), error)
            self._run(job, progress, error)
            return [self._read(job, i, desc.width, desc.height, error) for i in range(count)]
        finally:
            _lib.dit_job_destroy(job)
            model.drop()

    def _run(self, job, progress, error):
        status, result = Status(), WORKING
        while result == WORKING:  # ctypes lets other threads of Python run meanwhile
            result = _lib.dit_job_wait(job, u64(50_000_000))
            _lib.dit_job_status(job, c.byref(status), c.byref(error))
            if progress and progress(status.fraction, status.step, status.step_count) is False:
                _lib.dit_job_cancel(job)
        if result == CANCELLED:
            raise DitError("cancelled", CANCELLED)
        _check(result, error)

    def _read(self, job, image, width, height, error):
        rgba = (c.c_uint8 * (width * height * 4))()
        _check(_lib.dit_job_read(job, READ_RGBA8, u32(image), u32(0), rgba, size_t(len(rgba)), size_t(0), c.byref(error)),
               error)
        return Picture(width, height, bytes(rgba))


class Picture:
    """sRGB pixels: rgba is bytes [height][width][4], alpha 255."""

    def __init__(self, width, height, rgba):
        self.width, self.height, self.rgba = width, height, rgba

    def numpy(self):
        """uint8 [height, width, 4]; a view of rgba."""
        import numpy
        return numpy.frombuffer(self.rgba, numpy.uint8).reshape(self.height, self.width, 4)

    def save(self, path):
        """Writes a PNG."""
        row = self.width * 4
        lines = b"".join(b"\0" + self.rgba[y * row:(y + 1) * row] for y in range(self.height))
        with open(path, "wb") as file:
            file.write(b"\x89PNG\r\n\x1a\n")
            for kind, data in ((b"IHDR", struct.pack(">IIBBBBB", self.width, self.height, 8, 6, 0, 0, 0)),
                               (b"IDAT", zlib.compress(lines)), (b"IEND", b"")):
                file.write(struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)))
