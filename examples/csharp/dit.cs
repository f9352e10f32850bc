// Pictures from diffusion transformers in C#, by the shared library of dit.h: for .NET, Mono, Unity and Godot's C#.
//
//     using (var context = new Dit.Context())
//     using (var model = context.Load("models/emoji-q8_0.gguf")) {
//         byte[] rgba = model.Generate(new Dit.Request { Prompt = "fox, fluent style on a purple background", Seed = 7 })[0];
//     }
//
// The file needs C# 7 and nothing else. Put it in a project, and libdit.so or dit.dll where the runtime looks for native
// libraries (Unity: Assets/Plugins). Generate waits for the picture: call it in a thread or a Task, so that no frame waits.
// The structures are those of dit.h 0.2 in the same order; tests/packages.sh compares sizes and offsets with the C compiler's.
using System;
using System.Collections.Generic;
using System.Runtime.ExceptionServices;
using System.Runtime.InteropServices;
using System.Text;
using System.Threading;

namespace Dit {
    // A call failed; Result is one of dit_result, and the message names the culprit and what to do.
    public sealed class DitException : Exception {
        public readonly int Result;
        public DitException(string message, int result) : base(message) { Result = result; }
    }

    // A picture that is given, or a preview: bytes [Height][Width][4], sRGB, rows from the top.
    public sealed class Pixels {
        public readonly uint Width, Height;
        public readonly byte[] Rgba;
        public Pixels(uint width, uint height, byte[] rgba) {
            if (rgba == null || (ulong)rgba.LongLength != (ulong)width * height * 4)
                throw new ArgumentException((rgba == null ? 0 : rgba.LongLength) + " bytes are no " + width + " x " + height + " pixels of 4");
            Width = width;
            Height = height;
            Rgba = rgba;
        }
    }

    // Parameters of a picture; zeros and nulls stand for the model's defaults.
    public sealed class Request {
        public string Prompt = "", NegativePrompt, Sampler, Schedule, Cache;
        public byte[] Encoded, NegativeEncoded; // of Model.Encode, instead of the prompts
        public uint Width, Height, Steps, Count = 1; // Count: pictures, with the seeds Seed, Seed + 1 and so on
        public ulong Seed;
        public float Guidance, Distilled; // Distilled: guidance that is an input of the model (FLUX.1-dev)
        public int[] Classes; // labels of a class-conditional model, one for each picture, instead of a prompt
        public Pixels Init, Mask; // start from Init; repaint where Mask is white. Their size is the picture's
        public float Strength; // 0 to 1: how much of Init is replaced; 0: 0.75
        public float[] LoraWeights; // strengths of the model's LoRAs
        public Action<Pixels, uint> Preview; // (picture so far, step), in this thread, after every PreviewInterval steps
        public uint PreviewInterval = 1;
    }

    // A LoRA for Context.Load. Weight 0 stands for 1.
    public sealed class Lora {
        public string Path;
        public float Weight;
    }

    // A device, or several ("0,1"), and its pipelines. Models keep it alive.
    public sealed class Context : IDisposable {
        internal readonly ContextHandle Handle;

        // log(level, message) hears messages up to level, in the thread that calls; what it throws is thrown by that call.
        // cache: what SaveCache gave at the last start.
        public Context(string devices = null, Action<int, string> log = null, int level = 1, byte[] cache = null) {
            if (Native.dit_version() / 100 != Native.Version / 100)
                throw new DitException("libdit is version " + Native.dit_version() + ", dit.cs is written for " + Native.Version, -1);
            using (var text = new Texts()) {
                var desc = new Native.ContextDesc();
                var error = new Native.Error();
                Handle = new ContextHandle(log);
                desc.devices = text.Add(devices);
                if (cache != null) {
                    desc.cache = text.Pin(cache);
                    desc.cache_size = (UIntPtr)cache.LongLength;
                }
                if (log != null) {
                    desc.logger.func = Marshal.GetFunctionPointerForDelegate(Native.Hear);
                    desc.logger.max_level = level;
                    desc.logger.user = Handle.LogUser;
                }
                IntPtr made;
                int result = Native.dit_context_create(ref desc, out made, ref error);
                Handle.Own(made, result, error);
            }
        }

        // A model from a file or a diffusers folder. weightBudget: bytes of device memory for weights, the rest is streamed.
        // progress(part, bytes, of bytes) is called in this thread; false ends the call with an OperationCanceledException.
        public Model Load(string path, ulong weightBudget = 0, Func<string, ulong, ulong, bool> progress = null,
                          params Lora[] loras) {
            return new Model(this, path, weightBudget, progress, loras);
        }

        // Compiled pipelines and what was measured, for the next start.
        public byte[] SaveCache() {
            var error = new Native.Error();
            byte[] blob = null;
            for (;;) { // other threads may add to it between two calls
                var room = blob == null ? 0 : blob.LongLength;
                var size = (UIntPtr)room;
                int result = Native.dit_context_save_cache(Handle, blob, ref size, ref error);
                if (blob == null || (ulong)size <= (ulong)room) Native.Check(result, error);
                if (blob != null && result >= 0) {
                    Array.Resize(ref blob, (int)size);
                    return blob;
                }
                blob = new byte[(long)size];
            }
        }

        public void Dispose() { Handle.Dispose(); }
    }

    // Weights. Several threads may paint with one model at the same time.
    public sealed class Model : IDisposable {
        readonly Context context;
        readonly ModelHandle handle;
        readonly Native.ModelInfo info;

        internal Model(Context context, string path, ulong weightBudget, Func<string, ulong, ulong, bool> progress, Lora[] loras) {
            this.context = context;
            using (var text = new Texts()) {
                var desc = new Native.ModelDesc();
                var error = new Native.Error();
                IntPtr made;
                desc.source.path = text.Add(path);
                desc.weight_budget = weightBudget;
                desc.progress = text.Progress(progress);
                if (loras != null && loras.Length > 0) {
                    var parts = new Native.Component[loras.Length];
                    for (int i = 0; i < parts.Length; i++) {
                        parts[i].source.path = text.Add(loras[i].Path);
                        parts[i].role = Native.RoleLora;
                        parts[i].weight = loras[i].Weight;
                    }
                    desc.components = text.Pin(parts);
                    desc.component_count = (uint)parts.Length;
                }
                handle = new ModelHandle(context.Handle);
                int result = Native.dit_model_load(context.Handle, ref desc, out made, ref error);
                handle.Own(made, result, error);
                Native.dit_model_get_info(handle, out info);
            }
        }

        public string Family { get { return Native.Text(info.family); } }
        public uint DefaultWidth { get { return info.default_width; } }
        public uint DefaultHeight { get { return info.default_height; } }
        public uint SizeMultiple { get { return info.size_multiple; } }
        public uint DefaultSteps { get { return info.default_steps; } }
        public uint DefaultFrames { get { return info.default_frames; } } // 0: a model of single pictures

        // A prompt as bytes for Request.Encoded, on a machine without the text encoders, too.
        public byte[] Encode(string prompt) {
            using (var text = new Texts()) {
                var error = new Native.Error();
                var size = UIntPtr.Zero;
                IntPtr words = text.Add(prompt);
                Native.Check(Native.dit_encode_prompt(context.Handle, handle, words, null, ref size, ref error), error);
                var blob = new byte[(long)size];
                Native.Check(Native.dit_encode_prompt(context.Handle, handle, words, blob, ref size, ref error), error);
                return blob;
            }
        }

        // Pictures as bytes [height][width][4], sRGB, rows from the top; of a model of clips single ones.
        // progress(fraction, step, steps) is called in this thread about 20 times a second; false ends the call, like cancel,
        // with an OperationCanceledException.
        public byte[][] Generate(Request what, Func<float, uint, uint, bool> progress = null,
                                 CancellationToken cancel = default(CancellationToken)) {
            return Paint(what, 1, progress, cancel);
        }

        // The frames of a clip, likewise; frames: such a number as the model can make; 0: DefaultFrames.
        public byte[][] GenerateClip(Request what, uint frames = 0, Func<float, uint, uint, bool> progress = null,
                                     CancellationToken cancel = default(CancellationToken)) {
            if (what.Count > 1) throw new ArgumentException("Count is " + what.Count + "; a call makes one clip");
            return Paint(what, frames, progress, cancel);
        }

        byte[][] Paint(Request what, uint frames, Func<float, uint, uint, bool> progress, CancellationToken cancel) {
            using (var text = new Texts()) {
                var desc = new Native.JobDesc();
                var error = new Native.Error();
                var held = false;
                IntPtr job = IntPtr.Zero;
                try {
                    Describe(what, text, ref desc);
                    handle.DangerousAddRef(ref held);
                    desc.model = handle.DangerousGetHandle();
                    desc.frame_count = frames;
                    desc.progress = text.Progress((part, done, total) => !cancel.IsCancellationRequested);
                    Native.Check(Native.dit_job_create(context.Handle, ref desc, out job, ref error), error);
                    uint each = Run(job, what.Preview, progress, cancel);
                    var pictures = new byte[desc.image_count * each][];
                    for (uint i = 0; i < pictures.Length; i++) {
                        pictures[i] = new byte[(long)desc.width * desc.height * 4];
                        Native.Check(Native.dit_job_read(job, 0, i / each, i % each, pictures[i], (UIntPtr)pictures[i].LongLength,
                                                         UIntPtr.Zero, ref error), error);
                    }
                    return pictures;
                } finally {
                    Native.dit_job_destroy(job);
                    if (held) handle.DangerousRelease();
                }
            }
        }

        // Memory that desc points to lives as long as text.
        void Describe(Request what, Texts text, ref Native.JobDesc desc) {
            uint count = what.Count != 0 ? what.Count : 1;
            if (what.Classes != null && what.Classes.Length < count)
                throw new ArgumentException("Classes has " + what.Classes.Length + " labels for " + count + " pictures");
            if (what.Classes != null) {
                desc.class_labels = text.Pin(what.Classes);
            } else if (what.Encoded != null) {
                desc.conditioning = text.Pin(what.Encoded);
                desc.conditioning_size = (UIntPtr)what.Encoded.LongLength;
            } else {
                desc.prompt = text.Add(what.Prompt);
            }
            if (what.NegativeEncoded != null) {
                desc.negative_conditioning = text.Pin(what.NegativeEncoded);
                desc.negative_conditioning_size = (UIntPtr)what.NegativeEncoded.LongLength;
            } else {
                desc.negative_prompt = text.Add(what.NegativePrompt);
            }
            desc.sampler = text.Add(what.Sampler);
            desc.schedule = text.Add(what.Schedule);
            desc.cache = text.Add(what.Cache);
            desc.init_image = text.Add(what.Init);
            desc.mask = text.Add(what.Mask);
            desc.strength = what.Strength;
            desc.preview_interval = what.Preview != null ? what.PreviewInterval : 0;
            desc.width = what.Width != 0 ? what.Width : what.Init != null ? what.Init.Width : info.default_width;
            desc.height = what.Height != 0 ? what.Height : what.Init != null ? what.Init.Height : info.default_height;
            desc.steps = what.Steps;
            desc.image_count = count;
            desc.seed = what.Seed;
            desc.guidance.scale = what.Guidance;
            desc.guidance.distilled = what.Distilled;
            if (what.LoraWeights != null) {
                desc.lora_weights = text.Pin(what.LoraWeights);
                desc.lora_weight_count = (uint)what.LoraWeights.Length;
            }
        }

        // Returns the number of frames that each clip has, of pictures 1.
        static uint Run(IntPtr job, Action<Pixels, uint> preview, Func<float, uint, uint, bool> progress, CancellationToken cancel) {
            var status = new Native.Status();
            var error = new Native.Error();
            uint shown = 0;
            int result;
            do {
                if (cancel.IsCancellationRequested) Native.dit_job_cancel(job);
                result = Native.dit_job_wait(job, 50000000);
                Native.dit_job_status(job, out status, ref error);
                Native.Output output;
                if (preview != null && status.preview_id != shown && Native.dit_job_preview(job, out output) == 0) {
                    var pixels = new byte[(long)output.width * output.height * 4];
                    Native.Check(Native.dit_job_read(job, Native.ReadPreview, 0, 0, pixels, (UIntPtr)pixels.LongLength, UIntPtr.Zero,
                                                     ref error), error);
                    shown = status.preview_id;
                    preview(new Pixels(output.width, output.height, pixels), status.step);
                }
                if (progress != null && !progress(status.fraction, status.step, status.step_count)) Native.dit_job_cancel(job);
            } while (result == Native.Working);
            Native.Check(result, error);
            return status.frame_count;
        }

        public void Dispose() { handle.Dispose(); }
    }

    // ---- what follows is the C interface ----

    internal sealed class ContextHandle : SafeHandle {
        GCHandle log;
        internal ContextHandle(Action<int, string> log) : base(IntPtr.Zero, true) {
            if (log != null) this.log = GCHandle.Alloc(log);
        }
        internal IntPtr LogUser { get { return GCHandle.ToIntPtr(log); } }
        internal void Own(IntPtr made, int result, Native.Error error) {
            SetHandle(made);
            try {
                Native.Check(result, error);
            } catch {
                Dispose();
                throw;
            }
        }
        public override bool IsInvalid { get { return false; } } // the log is freed, too, where there is no context
        protected override bool ReleaseHandle() {
            Native.dit_context_destroy(handle);
            Native.Forget();
            if (log.IsAllocated) log.Free();
            return true;
        }
    }

    // It keeps its context: contexts go after their models, whoever is disposed of or collected first.
    internal sealed class ModelHandle : SafeHandle {
        readonly ContextHandle context;
        readonly bool held;
        internal ModelHandle(ContextHandle context) : base(IntPtr.Zero, true) {
            this.context = context;
            context.DangerousAddRef(ref held);
        }
        internal void Own(IntPtr made, int result, Native.Error error) {
            SetHandle(made);
            try {
                Native.Check(result, error);
            } catch {
                Dispose();
                throw;
            }
        }
        public override bool IsInvalid { get { return false; } }
        protected override bool ReleaseHandle() {
            Native.dit_model_destroy(handle);
            Native.Forget();
            if (held) context.DangerousRelease();
            return true;
        }
    }

    // Arguments that C reads until the end of a call: strings as UTF-8, arrays that stay where they are, functions.
    internal sealed class Texts : IDisposable {
        readonly List<IntPtr> list = new List<IntPtr>();
        readonly List<GCHandle> pinned = new List<GCHandle>();
        internal IntPtr Pin(object array) {
            pinned.Add(GCHandle.Alloc(array, GCHandleType.Pinned));
            return pinned[pinned.Count - 1].AddrOfPinnedObject();
        }
        internal IntPtr Add(Pixels picture) {
            if (picture == null) return IntPtr.Zero;
            return Pin(new[] {new Native.Image {width = picture.Width, height = picture.Height, rgba = Pin(picture.Rgba)}});
        }
        internal Native.Progress Progress(Func<string, ulong, ulong, bool> progress) {
            if (progress == null) return new Native.Progress();
            pinned.Add(GCHandle.Alloc(progress));
            return new Native.Progress {func = Marshal.GetFunctionPointerForDelegate(Native.Told),
                                        user = GCHandle.ToIntPtr(pinned[pinned.Count - 1])};
        }
        internal IntPtr Add(string text) {
            if (text == null) return IntPtr.Zero;
            if (text.IndexOf('\0') >= 0) throw new ArgumentException("there is a NUL in " + text.Replace("\0", "\\0"));
            byte[] bytes = Encoding.UTF8.GetBytes(text + "\0");
            IntPtr copy = Marshal.AllocHGlobal(bytes.Length);
            Marshal.Copy(bytes, 0, copy, bytes.Length);
            list.Add(copy);
            return copy;
        }
        public void Dispose() {
            foreach (IntPtr copy in list) Marshal.FreeHGlobal(copy);
            foreach (GCHandle array in pinned) array.Free();
        }
    }

    // Unity's compiler to C++ wants this mark, by its name, on what native code calls.
    [AttributeUsage(AttributeTargets.Method)]
    internal sealed class MonoPInvokeCallbackAttribute : Attribute {
        public MonoPInvokeCallbackAttribute(Type type) {}
    }

#pragma warning disable 649, 169 // members that only C reads or writes
    internal static class Native {
        internal const uint Version = 200; // of the declarations below
        internal const int Working = 1, Cancelled = 2, ReadPreview = 3, RoleLora = 11;
        const string Library = "dit";
        const CallingConvention C = CallingConvention.Cdecl; // Windows of 32 bits has another one for what says nothing

        [StructLayout(LayoutKind.Sequential)] internal struct Error {
            [MarshalAs(UnmanagedType.ByValArray, SizeConst = 504)] public byte[] message;
            public int result, vk;
            public uint device;
        }
        [StructLayout(LayoutKind.Sequential)] internal struct Three { IntPtr a, b, c; }
        [StructLayout(LayoutKind.Sequential)] internal struct Two { IntPtr a, b; }
        [StructLayout(LayoutKind.Sequential)] internal struct Transport {
            uint rank, rank_count;
            IntPtr send, receive, poll, user;
        }
        [StructLayout(LayoutKind.Sequential)] internal struct Logger {
            public IntPtr func;
            public int max_level;
            public IntPtr user;
        }
        [StructLayout(LayoutKind.Sequential)] internal struct Progress {
            public IntPtr func, user;
        }
        [StructLayout(LayoutKind.Sequential)] internal struct ContextDesc {
            uint _zero_begin;
            public IntPtr devices, vulkan;
            public uint vulkan_count;
            public Transport transport;
            public Three allocator, device_allocator;
            public Logger logger;
            public Two worker;
            public Progress progress;
            public IntPtr cache;
            public UIntPtr cache_size;
            public Two marker;
            public IntPtr mark;
            public UIntPtr mark_size;
            public ulong device_memory_limit;
            public uint frames_in_flight, max_slice_us;
            public IntPtr overrides;
            public byte tune, trace, trace_light;
            uint _zero_end;
        }
        [StructLayout(LayoutKind.Sequential)] internal struct Source {
            public IntPtr path, data;
            public ulong size;
            public IntPtr read_at, open, user;
        }
        [StructLayout(LayoutKind.Sequential)] internal struct Component {
            public Source source;
            public int role;
            public float weight;
            public byte merge;
            public int lora_of;
        }
        [StructLayout(LayoutKind.Sequential)] internal struct Image {
            public uint width, height;
            public IntPtr rgba;
            public UIntPtr row_pitch;
            public ulong image;
            public uint layout, format;
            public IntPtr rgb;
        }
        [StructLayout(LayoutKind.Sequential)] internal struct ModelDesc {
            uint _zero_begin;
            public Source source;
            public IntPtr components;
            public uint component_count;
            public IntPtr types;
            public uint type_count;
            public byte int8_attention;
            public ulong weight_budget;
            public byte release_text_encoders, keep_streamed, weights_by_need;
            public uint parts;
            public byte dry_run;
            public Progress progress;
            uint _zero_end;
        }
        [StructLayout(LayoutKind.Sequential)] internal struct ModelInfo {
            [MarshalAs(UnmanagedType.ByValArray, SizeConst = 32)] public byte[] family;
            [MarshalAs(UnmanagedType.ByValArray, SizeConst = 32)] public byte[] variant;
            [MarshalAs(UnmanagedType.ByValArray, SizeConst = 16)] public ulong[] parameters;
            public uint missing, default_width, default_height, size_multiple, default_steps, class_count, frame_multiple;
            public uint default_frames;
            public float default_fps;
            public byte wants_image, takes_last_image, wants_last_image, wants_mask, wants_control, takes_control, holds_frames, takes_image;
            public float default_guidance;
            public uint latent_channels, latent_factor;
            [MarshalAs(UnmanagedType.ByValArray, SizeConst = 32)] public byte[] default_sampler;
            [MarshalAs(UnmanagedType.ByValArray, SizeConst = 28)] public byte[] default_schedule;
            public float default_low_guidance;
            public ulong weight_bytes, streamed_bytes, absent_bytes;
            public uint layers, single_layers, hidden, heads, patch, default_latent_frames;
            [MarshalAs(UnmanagedType.ByValArray, SizeConst = 3)] public IntPtr[] encoders;
            [MarshalAs(UnmanagedType.ByValArray, SizeConst = 16)] public IntPtr[] places;
            public uint lora_count, control_count, sound_rate, sound_channels;
            public IntPtr negative_prompt;
            public float default_sound_guidance;
            public byte negative_always, lacks_sound;
        }
        [StructLayout(LayoutKind.Sequential)] internal struct Guidance {
            public float scale, distilled, rescale, skip_layer, first, last, project, norm_limit, skip_first, skip_last;
            public ulong skip_blocks;
            public byte dynamic;
            public float low_scale, length_limit, sound_scale, perturb, isolate;
        }
        [StructLayout(LayoutKind.Sequential)] internal struct Target {
            public ulong image;
            public uint format, dst_queue_family, final_layout, dst_stage, dst_access, mip, layer, usage, flags, export_handle;
        }
        [StructLayout(LayoutKind.Sequential)] internal struct JobDesc {
            uint _zero_begin;
            public IntPtr model, prompt, negative_prompt;
            public byte prompt_weights;
            public IntPtr class_labels, conditioning;
            public UIntPtr conditioning_size;
            public IntPtr negative_conditioning;
            public UIntPtr negative_conditioning_size;
            public IntPtr inputs;
            public uint input_count, width, height, frame_count;
            public float fps;
            public uint image_count, steps;
            public IntPtr sampler, schedule;
            public Guidance guidance;
            public float shift, eta;
            public uint clip_skip;
            public ulong seed;
            public int rng;
            public IntPtr init_image;
            public uint init_count;
            public IntPtr mask;
            public uint mask_count;
            public float strength;
            public IntPtr control_image;
            public uint control_count;
            public float control_strength;
            public IntPtr references;
            public uint reference_count;
            public IntPtr mask_strategy;
            public uint loop_count, loop, loop_frames;
            public float loop_edit;
            public byte float_frames;
            public IntPtr lora_weights;
            public uint lora_weight_count;
            public IntPtr adapters;
            public uint adapter_count;
            public IntPtr split;
            public byte resume_on_loss, keep_state;
            public IntPtr state;
            public UIntPtr state_size;
            public IntPtr cache;
            public uint preview_interval;
            public int preview;
            public uint vae_tile;
            public byte no_sound;
            public Target target;
            public Progress progress;
            uint _zero_end;
        }
        [StructLayout(LayoutKind.Sequential)] internal struct Status {
            public uint step, step_count;
            public float fraction;
            public uint last_slice_us, recorded_us, preview_id, frame, frame_count, reruns;
            public IntPtr rerun_op;
            public uint failed_devices;
            public int result, stage;
            public uint reused, sound_samples;
        }

        [StructLayout(LayoutKind.Sequential)] internal struct Output {
            public ulong image, view;
            public uint format, layout, width, height;
            public ulong timeline, value;
            public uint device;
            public byte final;
        }

        [DllImport(Library, CallingConvention = C)] internal static extern uint dit_version();
        [DllImport(Library, CallingConvention = C)]
        internal static extern int dit_context_create(ref ContextDesc desc, out IntPtr made, ref Error error);
        [DllImport(Library, CallingConvention = C)] internal static extern void dit_context_destroy(IntPtr context);
        [DllImport(Library, CallingConvention = C)]
        internal static extern int dit_context_save_cache(ContextHandle context, [Out] byte[] blob, ref UIntPtr size, ref Error error);
        [DllImport(Library, CallingConvention = C)]
        internal static extern int dit_encode_prompt(ContextHandle context, ModelHandle model, IntPtr prompt, [Out] byte[] blob,
                                                     ref UIntPtr size, ref Error error);
        [DllImport(Library, CallingConvention = C)]
        internal static extern int dit_model_load(ContextHandle context, ref ModelDesc desc, out IntPtr made, ref Error error);
        [DllImport(Library, CallingConvention = C)]
        internal static extern void dit_model_get_info(ModelHandle model, out ModelInfo info);
        [DllImport(Library, CallingConvention = C)] internal static extern void dit_model_destroy(IntPtr model);
        [DllImport(Library, CallingConvention = C)]
        internal static extern int dit_job_create(ContextHandle context, ref JobDesc desc, out IntPtr made, ref Error error);
        [DllImport(Library, CallingConvention = C)] internal static extern int dit_job_wait(IntPtr job, ulong timeout_ns);
        [DllImport(Library, CallingConvention = C)]
        internal static extern void dit_job_status(IntPtr job, out Status status, ref Error error);
        [DllImport(Library, CallingConvention = C)] internal static extern void dit_job_cancel(IntPtr job);
        [DllImport(Library, CallingConvention = C)] internal static extern int dit_job_preview(IntPtr job, out Output preview);
        [DllImport(Library, CallingConvention = C)]
        internal static extern int dit_job_read(IntPtr job, int what, uint image, uint frame, [Out] byte[] pixels, UIntPtr size,
                                                UIntPtr row_pitch, ref Error error);
        [DllImport(Library, CallingConvention = C)] internal static extern void dit_job_destroy(IntPtr job);

        [UnmanagedFunctionPointer(CallingConvention.Cdecl)]
        internal delegate void LogFunction(int level, IntPtr message, IntPtr user);
        internal static readonly LogFunction Hear = OnMessage; // kept for as long as the library may call it
        [UnmanagedFunctionPointer(CallingConvention.Cdecl)]
        internal delegate byte ProgressFunction(IntPtr what, ulong done, ulong total, IntPtr user);
        internal static readonly ProgressFunction Told = OnProgress;
        [ThreadStatic] static Exception thrown; // in a function that C called: it must not leave that, and Check throws it

        [MonoPInvokeCallback(typeof(LogFunction))]
        static void OnMessage(int level, IntPtr message, IntPtr user) {
            try {
                ((Action<int, string>)GCHandle.FromIntPtr(user).Target)(level, Text(message));
            } catch (Exception e) {
                thrown = thrown ?? e;
            }
        }

        [MonoPInvokeCallback(typeof(ProgressFunction))]
        static byte OnProgress(IntPtr what, ulong done, ulong total, IntPtr user) {
            try {
                var progress = (Func<string, ulong, ulong, bool>)GCHandle.FromIntPtr(user).Target;
                return thrown == null && progress(Text(what), done, total) ? (byte)1 : (byte)0;
            } catch (Exception e) {
                thrown = e;
                return 0;
            }
        }

        internal static void Forget() { thrown = null; } // of an object's end, which throws nothing

        static string Text(IntPtr message) {
            int length = 0;
            while (Marshal.ReadByte(message, length) != 0) length++;
            var bytes = new byte[length];
            Marshal.Copy(message, bytes, 0, length);
            return Encoding.UTF8.GetString(bytes);
        }

        internal static string Text(byte[] bytes) {
            int length = bytes == null ? 0 : Array.IndexOf(bytes, (byte)0);
            return bytes == null ? "" : Encoding.UTF8.GetString(bytes, 0, length < 0 ? bytes.Length : length);
        }

        internal static void Check(int result, Error error) {
            Exception first = thrown;
            thrown = null;
            if (first != null) ExceptionDispatchInfo.Capture(first).Throw();
            if (result == Cancelled) throw new OperationCanceledException("cancelled");
            if (result >= 0) return;
            string message = Text(error.message);
            throw new DitException(message != "" ? message : "dit_result " + result, result);
        }
    }
}
