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
using System.Runtime.InteropServices;
using System.Text;
using System.Threading;

namespace Dit {
    // A call failed; Result is one of dit_result, and the message names the culprit and what to do.
    public sealed class DitException : Exception {
        public readonly int Result;
        public DitException(string message, int result) : base(message) { Result = result; }
    }

    // Parameters of a picture; zeros and nulls stand for the model's defaults.
    public sealed class Request {
        public string Prompt = "", NegativePrompt, Sampler, Schedule;
        public uint Width, Height, Steps, Count = 1; // Count: pictures, with the seeds Seed, Seed + 1 and so on
        public ulong Seed;
        public float Guidance;
        public int[] Classes; // labels of a class-conditional model, one for each picture, instead of a prompt
    }

    // A device, or several ("0,1"), and its pipelines. Models keep it alive.
    public sealed class Context : IDisposable {
        internal readonly ContextHandle Handle;

        // log(level, message) hears messages up to level, in any thread; nothing may be thrown in it.
        public Context(string devices = null, Action<int, string> log = null, int level = 1) {
            if (Native.dit_version() / 100 != Native.Version / 100)
                throw new DitException("libdit is version " + Native.dit_version() + ", dit.cs is written for " + Native.Version, -1);
            using (var text = new Texts()) {
                var desc = new Native.ContextDesc();
                var error = new Native.Error();
                Handle = new ContextHandle(log);
                desc.devices = text.Add(devices);
                if (log != null) {
                    desc.logger.func = Marshal.GetFunctionPointerForDelegate(Native.Hear);
                    desc.logger.max_level = level;
                    desc.logger.user = Handle.LogUser;
                }
                IntPtr made;
                int result = Native.dit_context_create(ref desc, out made, ref error);
                if (result < 0) Handle.Dispose();
                Native.Check(result, error);
                Handle.Own(made);
            }
        }

        // A model from a file or a diffusers folder. weightBudget: bytes of device memory for weights, the rest is streamed.
        public Model Load(string path, ulong weightBudget = 0) { return new Model(this, path, weightBudget); }

        public void Dispose() { Handle.Dispose(); }
    }

    // Weights. Several threads may paint with one model at the same time.
    public sealed class Model : IDisposable {
        readonly Context context;
        readonly ModelHandle handle;
        readonly Native.ModelInfo info;

        internal Model(Context context, string path, ulong weightBudget) {
            this.context = context;
            using (var text = new Texts()) {
                var desc = new Native.ModelDesc();
                var error = new Native.Error();
                IntPtr made;
                desc.source.path = text.Add(path);
                desc.weight_budget = weightBudget;
                handle = new ModelHandle(context.Handle);
                int result = Native.dit_model_load(context.Handle, ref desc, out made, ref error);
                if (result < 0) handle.Dispose();
                Native.Check(result, error);
                handle.Own(made);
                Native.dit_model_get_info(handle, out info);
            }
        }

        public string Family { get { return Native.Text(info.family); } }
        public uint DefaultWidth { get { return info.default_width; } }
        public uint DefaultHeight { get { return info.default_height; } }
        public uint SizeMultiple { get { return info.size_multiple; } }
        public uint DefaultSteps { get { return info.default_steps; } }

        // Pictures as bytes [height][width][4], sRGB, rows from the top; of a model of clips single ones. progress(fraction, step, steps) is called in this thread
        // about 20 times a second; false ends the call, like cancel, with an OperationCanceledException.
        public byte[][] Generate(Request what, Func<float, uint, uint, bool> progress = null,
                                 CancellationToken cancel = default(CancellationToken)) {
            using (var text = new Texts()) {
                var desc = new Native.JobDesc();
                var error = new Native.Error();
                var labels = default(GCHandle);
                var held = false;
                uint count = what.Count != 0 ? what.Count : 1;
                IntPtr job = IntPtr.Zero;
                try {
                    if (what.Classes != null && what.Classes.Length < count)
                        throw new ArgumentException("Classes has " + what.Classes.Length + " labels for " + count + " pictures");
                    if (what.Classes != null) {
                        labels = GCHandle.Alloc(what.Classes, GCHandleType.Pinned);
                        desc.class_labels = labels.AddrOfPinnedObject();
                    } else {
                        desc.prompt = text.Add(what.Prompt);
                    }
                    handle.DangerousAddRef(ref held);
                    desc.model = handle.DangerousGetHandle();
                    desc.negative_prompt = text.Add(what.NegativePrompt);
                    desc.sampler = text.Add(what.Sampler);
                    desc.schedule = text.Add(what.Schedule);
                    desc.width = what.Width != 0 ? what.Width : info.default_width;
                    desc.height = what.Height != 0 ? what.Height : info.default_height;
                    desc.steps = what.Steps;
                    desc.image_count = count;
                    desc.frame_count = 1;
                    desc.seed = what.Seed;
                    desc.guidance.scale = what.Guidance;
                    Native.Check(Native.dit_job_create(context.Handle, ref desc, out job, ref error), error);
                    Run(job, progress, cancel);
                    var pictures = new byte[count][];
                    for (uint i = 0; i < count; i++) {
                        pictures[i] = new byte[(long)desc.width * desc.height * 4];
                        Native.Check(Native.dit_job_read(job, 0, i, 0, pictures[i], (UIntPtr)pictures[i].LongLength, UIntPtr.Zero,
                                                         ref error), error);
                    }
                    return pictures;
                } finally {
                    Native.dit_job_destroy(job);
                    if (held) handle.DangerousRelease();
                    if (labels.IsAllocated) labels.Free();
                }
            }
        }

        static void Run(IntPtr job, Func<float, uint, uint, bool> progress, CancellationToken cancel) {
            var status = new Native.Status();
            var error = new Native.Error();
            int result;
            do {
                if (cancel.IsCancellationRequested) Native.dit_job_cancel(job);
                result = Native.dit_job_wait(job, 50000000);
                Native.dit_job_status(job, out status, ref error);
                if (progress != null && !progress(status.fraction, status.step, status.step_count)) Native.dit_job_cancel(job);
            } while (result == Native.Working);
            if (result == Native.Cancelled) throw new OperationCanceledException("cancelled");
            Native.Check(result, error);
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
        internal void Own(IntPtr made) { SetHandle(made); }
        public override bool IsInvalid { get { return false; } } // the log is freed, too, where there is no context
        protected override bool ReleaseHandle() {
            Native.dit_context_destroy(handle);
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
        internal void Own(IntPtr made) { SetHandle(made); }
        public override bool IsInvalid { get { return false; } }
        protected override bool ReleaseHandle() {
            Native.dit_model_destroy(handle);
            if (held) context.DangerousRelease();
            return true;
        }
    }

    // Strings as C reads them, UTF-8, until the end of a call.
    internal sealed class Texts : IDisposable {
        readonly List<IntPtr> list = new List<IntPtr>();
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
        internal const int Working = 1, Cancelled = 2;
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
        [StructLayout(LayoutKind.Sequential)] internal struct ContextDesc {
            uint _zero_begin;
            public IntPtr devices, vulkan;
            public uint vulkan_count;
            public Transport transport;
            public Three allocator, device_allocator;
            public Logger logger;
            public Two worker, progress;
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
            public Two progress;
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
            public uint lora_count, control_count;
        }
        [StructLayout(LayoutKind.Sequential)] internal struct Guidance {
            public float scale, distilled, rescale, skip_layer, first, last, project, norm_limit, skip_first, skip_last;
            public ulong skip_blocks;
            public byte dynamic;
            public float low_scale, length_limit;
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
            public byte resume_on_loss;
            public IntPtr cache;
            public uint preview_interval;
            public int preview;
            public uint vae_tile;
            public Target target;
            public Two progress;
            uint _zero_end;
        }
        [StructLayout(LayoutKind.Sequential)] internal struct Status {
            public uint step, step_count;
            public float fraction;
            public uint last_slice_us, recorded_us, preview_id, frame, frame_count, reruns;
            public IntPtr rerun_op;
            public uint failed_devices;
            public int result, stage;
            public uint reused;
        }

        [DllImport(Library, CallingConvention = C)] internal static extern uint dit_version();
        [DllImport(Library, CallingConvention = C)]
        internal static extern int dit_context_create(ref ContextDesc desc, out IntPtr made, ref Error error);
        [DllImport(Library, CallingConvention = C)] internal static extern void dit_context_destroy(IntPtr context);
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
        [DllImport(Library, CallingConvention = C)]
        internal static extern int dit_job_read(IntPtr job, int what, uint image, uint frame, [Out] byte[] pixels, UIntPtr size,
                                                UIntPtr row_pitch, ref Error error);
        [DllImport(Library, CallingConvention = C)] internal static extern void dit_job_destroy(IntPtr job);

        [UnmanagedFunctionPointer(CallingConvention.Cdecl)]
        internal delegate void LogFunction(int level, IntPtr message, IntPtr user);
        internal static readonly LogFunction Hear = OnMessage; // kept for as long as the library may call it

        [MonoPInvokeCallback(typeof(LogFunction))]
        static void OnMessage(int level, IntPtr message, IntPtr user) {
            int length = 0;
            while (Marshal.ReadByte(message, length) != 0) length++;
            var bytes = new byte[length];
            Marshal.Copy(message, bytes, 0, length);
            ((Action<int, string>)GCHandle.FromIntPtr(user).Target)(level, Encoding.UTF8.GetString(bytes));
        }

        internal static string Text(byte[] bytes) {
            int length = bytes == null ? 0 : Array.IndexOf(bytes, (byte)0);
            return bytes == null ? "" : Encoding.UTF8.GetString(bytes, 0, length < 0 ? bytes.Length : length);
        }

        internal static void Check(int result, Error error) {
            if (result == Cancelled) throw new OperationCanceledException("cancelled");
            if (result >= 0) return;
            string message = Text(error.message);
            throw new DitException(message != "" ? message : "dit_result " + result, result);
        }
    }
}
