// Pictures from diffusion transformers in C#, by the shared library of dit.h: for .NET, Mono, Unity and Godot's C#.
//
//     using (var context = new Dit.Context())
//     using (var model = context.Load("models/emoji-q8_0.gguf")) {
//         byte[] rgba = model.Generate(new Dit.Request { Prompt = "fox, fluent style on a purple background", Seed = 7 })[0];
//     }
//
// Every function of dit.h has its place here, which docs/languages.md lists. The file needs C# 7 and nothing else. Put it in a
// project, and libdit.so or dit.dll where the runtime looks for native libraries (Unity: Assets/Plugins). Generate waits for
// the picture: call it in a thread or a Task, so that no frame waits, or step a Job. The structures are those of dit.h 0.2 in
// the same order; tests/packages.sh compares sizes and offsets with the C compiler's.
using System;
using System.Collections.Generic;
using System.IO;
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

    // Numbers: Shape, the slowest dimension first, and Data, dense; Type: "F32", "F16", "BF16", "I32" or "I64".
    public sealed class Tensor {
        public readonly string Name, Type; // Name: of an input ("noise"); else null
        public readonly ulong[] Shape;
        public readonly Array Data; // float[], or byte[] of any type
        public Tensor(string name, ulong[] shape, Array data, string type = "F32") {
            ulong bytes = (ulong)Library.Bytes(type);
            foreach (ulong length in shape) bytes *= length;
            if (shape.Length < 1 || shape.Length > 5 || (ulong)Buffer.ByteLength(data) != bytes)
                throw new ArgumentException(name + " has " + Buffer.ByteLength(data) + " bytes, and " + shape.Length + " sizes for " + bytes);
            Name = name;
            Shape = shape;
            Data = data;
            Type = type;
        }
    }

    // The names of parts, as diffusers' folders have them. Tokenizers and T5 stand for the one of several parts that fits, Sound
    // for audio_vae and vocoder, or for either.
    public enum Role {
        None, Transformer, TextEncoder, TextEncoder2, TextEncoder3, Tokenizer, Tokenizer2, Tokenizer3, Vae, Tae, Scheduler,
        ControlNet = 12, Transformer2, ImageEncoder, Tokenizers, T5, Sound
    }
    public enum Stage { Queued, Encode, Denoise, Decode, Done }
    public enum Rng { Default, TorchCpu, Philox } // noise as diffusers' scripts have it; Philox: as graphical front ends
    public enum PreviewKind { Default, Proj, Tae, Vae } // Proj costs nearly nothing; Default: Tae where there is one, else Vae

    // Parts of guidance besides its scale, as dit_guidance; 0: off, or the model's. First, Last, SkipFirst, SkipLast: fractions
    // of the steps.
    public sealed class Guided {
        public float Rescale, SkipLayer, First, Last, Project, NormLimit, SkipFirst, SkipLast, LowScale, LengthLimit;
        public float SoundScale, Perturb, Isolate; // of models with sound
        public ulong SkipBlocks; // bit i is block i
        public bool Dynamic;
    }

    // A control net at work: one of Role.ControlNet, counted by Number, follows Picture, which has the size that is made. Weight
    // 0 stands for 1. First, Last: fractions of the steps between which it works; 0, 0: all.
    public sealed class ControlNet {
        public Pixels Picture;
        public uint Number, Mode;
        public float Weight, First, Last;
    }

    // The place on the device that pictures get, as dit_target: numbers of Vulkan's.
    public sealed class Target {
        public ulong Image;
        public uint Format, DstQueueFamily, FinalLayout, DstStage, DstAccess, Mip, Layer, Usage, Flags, ExportHandle;
    }

    // Parameters of a picture; zeros and nulls stand for the model's defaults.
    public sealed class Request {
        public string Prompt = "", NegativePrompt, Sampler, Schedule, Cache, Split;
        public bool PromptWeights; // read (word:1.3) in the prompts
        public byte[] Encoded, NegativeEncoded; // of Model.Encode, instead of the prompts
        public uint Width, Height, Steps, Count = 1; // Count: pictures, with the seeds Seed, Seed + 1 and so on
        public ulong Seed;
        public Rng Rng;
        public float Guidance, Distilled; // Distilled: guidance that is an input of the model (FLUX.1-dev)
        public Guided Guided;
        public float Shift, Eta;
        public uint ClipSkip;
        public int[] Classes; // labels of a class-conditional model, one for each picture, instead of a prompt
        public Pixels Init, Mask; // start from Init; repaint where Mask is white. Their size is the picture's
        public Pixels[] InitFrames, Masks; // the same of clips, in place of Init and Mask: a picture for each frame
        public float Strength; // 0 to 1: how much of Init is replaced; 0: 0.75
        public Pixels[] Control; // the picture that is followed, or the frames of a clip
        public float ControlStrength; // 0: 1
        public Pixels[] References; // pictures that the picture is made after
        public Pixels[][] ReferenceClips; // the same where each may have several frames, in place of References
        public ControlNet[] ControlNets;
        public float[] LoraWeights; // strengths of the model's LoRAs
        public Tensor[] Inputs; // in place of what dit would compute; "image_latents", what Job.Latent gives, in place of Init
        public bool KeepState; // for Job.SaveState
        public byte[] State; // of Job.SaveState, for StartJob: the steps that were finished then are left out; KeepState holds, too
        public uint VaeTile; // pixels of the side of tiles in which pictures are decoded; 0: all at once
        public bool ResumeOnLoss; // a split job goes on without a device that fails
        public float Fps; // frames of a second, of clips, like what follows
        public string MaskStrategy;
        public uint LoopCount, Loop, LoopFrames;
        public float LoopEdit;
        public bool FloatFrames; // Job.Floats gives frames, too
        public bool NoSound; // made without the sound that Job.Sound gives
        public Action<Pixels, uint> Preview; // (picture so far, step), in this thread, after every PreviewInterval steps
        public bool Previews; // they are made without Preview, too, for Job.Preview
        public uint PreviewInterval = 1;
        public PreviewKind PreviewKind;
        public Target Target;
        internal Request Copy() { return (Request)MemberwiseClone(); }
    }

    // The place of bytes that have no path, in Context.Load: Data is a file that can be sought (MemoryStream for one in memory),
    // Open a folder, of which it opens a file by its relative path; null or FileNotFoundException: there is none. Files are read
    // while weights are streamed, too: leave Data open as long as the model. Those that Open has opened are closed with the model.
    public abstract class Place {
        public string Path;
        public Stream Data;
        public Func<string, Stream> Open;
    }

    // A LoRA. Weight 0 stands for 1. Merge: it becomes part of the weights, in Context.Load. Second: it is for the second
    // transformer.
    public sealed class Lora : Place {
        public float Weight;
        public bool Merge, Second;
    }

    // A part of a pipeline that is a file or a folder of its own. Role.None: its content tells.
    public sealed class Component : Place {
        public Role Role;
    }

    // Tensors that are kept in another type: a pattern as "transformer.*blocks.*", and "I8_ROW", "I8_ROW_ROTATED",
    // "I4_ROW_ROTATED" or "I4_GROUP".
    public sealed class TypeRule {
        public string Tensors, Type;
    }

    // How Context.Load reads a model; zeros and nulls are what most models want. Data or Open: the model, where path is null.
    public sealed class LoadOptions : Place {
        public Component[] Components;
        public Lora[] Loras;
        public TypeRule[] Types;
        public Role[] Parts; // the only ones that are read, as Transformer and Vae where prompts are encoded
        public ulong WeightBudget; // bytes of device memory for weights, the rest is streamed
        public bool ReleaseTextEncoders, KeepStreamed, WeightsByNeed, Int8Attention; // as in dit_model_desc
        public Func<string, ulong, ulong, bool> Progress; // (part, bytes, of bytes) in this thread; false ends the call
    }

    // A Vulkan device of the application's, as dit_vulkan.
    public sealed class Vulkan {
        public IntPtr GetInstanceProcAddr, Instance, PhysicalDevice, Device, DeviceInfo, Queue, TransferQueue;
        public uint ApiVersion, QueueFamily, TransferFamily;
        public Action Lock, Unlock; // held around submissions, where the application uses the queue, too
        public ulong PipelineCache;
    }

    // How a context is made; zeros and nulls stand for dit's own choice.
    public sealed class ContextOptions {
        public string Devices; // a number in Library.Devices, part of a name, or several: "0,1"
        public Vulkan[] Vulkan; // devices of the application's, in place of Devices
        public Action<int, string> Log; // hears messages up to Level, in the thread that calls; what it throws is thrown by that call
        public int Level = 1;
        public byte[] Cache; // what SaveCache gave at the last start
        public string Overrides;
        public ulong MemoryLimit; // bytes of device memory
        public Func<string, ulong, ulong, bool> Progress; // of calls that have none of their own
        public uint FramesInFlight, MaxSliceUs; // calls of Job.Record that may be pending; microseconds of the longest slice
        public int Threads; // that compile kernels beside the one that calls
        public bool Tune, Trace, TraceLight; // measure unknown kernels; for TraceWrite
        public Action<byte[]> Marker; // keeps bytes for Mark of the next start, or forgets them where there are none
        public byte[] Mark;
    }

    // A Vulkan device. Rung: the best kernels that it can run, "none" if dit cannot use it. Memory: bytes of its largest heap.
    public sealed class Device {
        public readonly string Name, Rung, Uuid;
        public readonly ulong Memory;
        public readonly uint Vendor, Type, ApiVersion, DriverVersion;
        internal Device(Native.DeviceInfo info) {
            Name = Native.Text(info.name);
            Rung = Native.Text(info.rung);
            Uuid = BitConverter.ToString(info.uuid).Replace("-", "").ToLowerInvariant();
            Memory = info.memory;
            Vendor = info.vendor;
            Type = info.type;
            ApiVersion = info.api_version;
            DriverVersion = info.driver_version;
        }
    }

    // A LoRA of a model, as dit_lora_info. Bytes: device memory.
    public sealed class LoraInfo {
        public readonly string Name, FirstLeftOut;
        public readonly float Weight, Guidance;
        public readonly bool Merged, OnlyMerged;
        public readonly uint Modules, LeftOut, Rank, Dense, Steps;
        public readonly ulong Bytes;
        internal LoraInfo(Native.LoraInfo info, float weight) {
            Name = Native.Text(info.name);
            FirstLeftOut = Native.Text(info.first_left_out);
            Weight = weight;
            Guidance = info.guidance;
            Merged = info.merged != 0;
            OnlyMerged = info.only_merged != 0;
            Modules = info.modules;
            LeftOut = info.left_out;
            Rank = info.rank;
            Dense = info.dense;
            Steps = info.steps;
            Bytes = info.bytes;
        }
    }

    // Tensors of one part of a model that have one type in its files. Parameters: values; the others are bytes.
    public sealed class WeightInfo {
        public readonly Role Role;
        public readonly string Type;
        public readonly uint TensorCount;
        public readonly ulong Parameters, FileBytes, DeviceBytes;
        internal WeightInfo(Native.WeightInfo info) {
            Role = (Role)info.role;
            Type = Library.TypeName(info.type);
            TensorCount = info.tensor_count;
            Parameters = info.parameters;
            FileBytes = info.file_bytes;
            DeviceBytes = info.device_bytes;
        }
    }

    // Bytes that a picture needs, as dit_memory.
    public sealed class MemoryNeed {
        public readonly ulong Weights, Activations, Peak, Host, Streamed, DeviceLocal, HostVisible;
        public readonly string Split;
        public readonly double Seconds; // predicted, of Split "auto"
        internal MemoryNeed(Native.Memory memory) {
            Weights = memory.weights;
            Activations = memory.activations;
            Peak = memory.peak;
            Host = (ulong)memory.host;
            Streamed = memory.streamed;
            DeviceLocal = memory.device_local;
            HostVisible = memory.host_visible;
            Split = Native.Text(memory.split);
            Seconds = memory.seconds;
        }
    }

    // A dispatch of a planned job, as dit_op_info. Kind: "product", "convolution", "attention" or "other".
    public sealed class Op {
        public string Name, Segment, Weight, Output, Kind;
        public uint Number, Runs;
        public uint[] Shape;
        public double Flops, Bytes;
        public ulong Live;
    }

    // A tensor [Rows, Columns] that a planned job keeps on the device, as dit_tensor_info.
    public sealed class Planned {
        public string Name, Type;
        public uint Rows, Columns, Block, FirstOp, LastOp;
        public ulong Bytes, Offset;
        public bool Arena;
    }

    // The dispatches and tensors of a job.
    public sealed class Plan {
        public readonly List<Op> Ops = new List<Op>();
        public readonly List<Planned> Tensors = new List<Planned>();
    }

    // How far a job is, as dit_status. Fraction: 0 to 1. Frame: frames that can be read by now. SoundSamples: samples of each
    // channel that Job.Sound gives by now.
    public sealed class JobStatus {
        public readonly uint Step, StepCount, LastSliceUs, RecordedUs, PreviewId, Frame, FrameCount, Reruns, FailedDevices, Reused, SoundSamples;
        public readonly float Fraction;
        public readonly int Result;
        public readonly Stage Stage;
        internal JobStatus(Native.Status status) {
            Step = status.step;
            StepCount = status.step_count;
            LastSliceUs = status.last_slice_us;
            RecordedUs = status.recorded_us;
            PreviewId = status.preview_id;
            Frame = status.frame;
            FrameCount = status.frame_count;
            Reruns = status.reruns;
            FailedDevices = status.failed_devices;
            Reused = status.reused;
            SoundSamples = status.sound_samples;
            Fraction = status.fraction;
            Result = status.result;
            Stage = (Stage)status.stage;
        }
    }

    // Counts since a job was made, as dit_counters.
    public sealed class JobCounters {
        public readonly ulong Dispatches, Submits, Recordings, Allocations, Pipelines, PeerBytes, StreamedBytes;
        internal JobCounters(Native.Counters counters) {
            Dispatches = counters.dispatches;
            Submits = counters.submits;
            Recordings = counters.recordings;
            Allocations = counters.allocations;
            Pipelines = counters.pipelines;
            PeerBytes = counters.peer_bytes;
            StreamedBytes = counters.streamed_bytes;
        }
    }

    // One device's part of a job that is split. Part: 0 to 1 of the work. StepBytes: sent to other devices in each step.
    public sealed class JobShare {
        public readonly uint Device;
        public readonly float Part;
        public readonly ulong StepBytes;
        public readonly string Work;
        internal JobShare(Native.Share share) {
            Device = share.device;
            Part = share.part;
            StepBytes = share.step_bytes;
            Work = Native.Text(share.work);
        }
    }

    // A picture on the device, as dit_output: handles and numbers of Vulkan's.
    public sealed class JobOutput {
        public readonly ulong Image, View, Timeline, Value;
        public readonly uint Format, Layout, Width, Height, Device;
        public readonly bool Final;
        internal JobOutput(Native.Output output) {
            Image = output.image;
            View = output.view;
            Timeline = output.timeline;
            Value = output.value;
            Format = output.format;
            Layout = output.layout;
            Width = output.width;
            Height = output.height;
            Device = output.device;
            Final = output.final != 0;
        }
    }

    // A picture's memory for another device or API, as dit_export. Handle: a file descriptor, on Windows a HANDLE; the caller's.
    public sealed class JobExport {
        public readonly long Handle;
        public readonly ulong Size;
        public readonly uint HandleType, MemoryType, Format, Width, Height, Usage, Flags, Layout;
        internal JobExport(Native.Export export) {
            Handle = export.handle;
            Size = export.size;
            HandleType = export.handle_type;
            MemoryType = export.memory_type;
            Format = export.format;
            Width = export.width;
            Height = export.height;
            Usage = export.usage;
            Flags = export.flags;
            Layout = export.layout;
        }
    }

    // Functions that need neither a context nor a model.
    public static class Library {
        public static Version Version {
            get {
                int number = (int)Native.dit_version();
                return new Version(number / 10000, number / 100 % 100, number % 100);
            }
        }

        // The devices of this machine, in the order by which contexts count them.
        public static Device[] Devices() {
            return Array.ConvertAll(Native.Listed((Native.DeviceInfo[] infos, ref uint count, ref Native.Error error) =>
                Native.dit_device_list(infos, ref count, ref error)), info => new Device(info));
        }

        // Names for Request.Sampler, which knows those of diffusers, A1111 and ComfyUI, too, and for Request.Schedule.
        public static string[] Samplers() { return Names(Native.dit_sampler_name); }
        public static string[] Schedules() { return Names(Native.dit_schedule_name); }

        // The sampler that other programs call by this name; schedule: null where the name has none ("DPM++ 2M Karras" has).
        public static string FindSampler(string name, out string schedule) {
            using (var text = new Texts()) {
                var error = new Native.Error();
                IntPtr sampler, with;
                Native.Check(Native.dit_find_sampler(text.Add(name), out sampler, out with, ref error), error);
                schedule = with == IntPtr.Zero ? null : Native.Text(with);
                return Native.Text(sampler);
            }
        }

        // The schedule of this name; null: the model's own ("automatic").
        public static string FindSchedule(string name) {
            using (var text = new Texts()) {
                var error = new Native.Error();
                IntPtr schedule;
                Native.Check(Native.dit_find_schedule(text.Add(name), out schedule, ref error), error);
                return schedule == IntPtr.Zero ? null : Native.Text(schedule);
            }
        }

        // A prompt between two of one model, as Encode gives them: a for part 0, b for part 1.
        public static byte[] Mix(byte[] a, byte[] b, float part) {
            if (a.Length != b.Length) throw new ArgumentException(a.Length + " and " + b.Length + " bytes are no prompts of one model");
            var error = new Native.Error();
            var blob = new byte[a.Length];
            Native.Check(Native.dit_mix_prompts(a, b, (UIntPtr)a.Length, part, blob, ref error), error);
            return blob;
        }

        // The name of a dit_type, "stored" for unknown ones.
        public static string TypeName(int type) { return Native.Text(Native.dit_type_name(type)); }

        // A result in a few words.
        public static string ResultText(int result) { return Native.Text(Native.dit_result_string(result)); }

        // A VkDeviceCreateInfo with which a device of yours can run dit at its best: that at createInfo, and what dit can use
        // besides, for vkCreateDevice and Vulkan.DeviceInfo. Keep it until the context is there.
        public static DeviceCreateInfo ExtendDevice(IntPtr getInstanceProcAddr, IntPtr instance, IntPtr gpu, IntPtr createInfo) {
            var error = new Native.Error();
            var size = UIntPtr.Zero;
            Native.Check(Native.dit_device_extend(getInstanceProcAddr, instance, gpu, createInfo, IntPtr.Zero, ref size, IntPtr.Zero, ref error), error);
            var made = new DeviceCreateInfo((int)size);
            Native.Check(Native.dit_device_extend(getInstanceProcAddr, instance, gpu, createInfo, made.Memory, ref size, made.Address, ref error), error);
            return made;
        }

        internal static int TypeNumber(string name) {
            for (int type = 1; type < 64; type++)
                if (TypeName(type) == name) return type;
            throw new ArgumentException("there is no type " + name);
        }

        internal static int Bytes(string type) {
            switch (type) {
            case "F32":
            case "I32": return 4;
            case "F16":
            case "BF16": return 2;
            case "I64": return 8;
            default: throw new ArgumentException("a tensor is F32, F16, BF16, I32 or I64, not " + type);
            }
        }

        static string[] Names(Func<uint, IntPtr> name) {
            var names = new List<string>();
            while (name((uint)names.Count) != IntPtr.Zero) names.Add(Native.Text(name((uint)names.Count)));
            return names.ToArray();
        }
    }

    // The result of Library.ExtendDevice.
    public sealed class DeviceCreateInfo : IDisposable {
        public readonly IntPtr Address; // of the VkDeviceCreateInfo
        internal readonly IntPtr Memory;
        bool freed;
        internal DeviceCreateInfo(int size) {
            Address = Marshal.AllocHGlobal(10 * IntPtr.Size + size + 8); // it has ten members, none larger than a pointer
            Memory = (IntPtr)(((long)Address + 10 * IntPtr.Size + 7) / 8 * 8);
        }
        ~DeviceCreateInfo() { Dispose(); }
        public void Dispose() {
            if (!freed) Marshal.FreeHGlobal(Address);
            freed = true;
            GC.SuppressFinalize(this);
        }
    }

    // A device, or several ("0,1"), and its pipelines. Models keep it alive.
    public sealed class Context : IDisposable {
        internal readonly ContextHandle Handle;
        internal readonly Func<string, ulong, ulong, bool> Progress;

        public Context(string devices = null, Action<int, string> log = null, int level = 1, byte[] cache = null)
            : this(new ContextOptions { Devices = devices, Log = log, Level = level, Cache = cache }) {}

        public Context(ContextOptions what) {
            if (Native.dit_version() / 100 != Native.Version / 100)
                throw new DitException("libdit is version " + Native.dit_version() + ", dit.cs is written for " + Native.Version, -1);
            using (var text = new Texts()) {
                var desc = new Native.ContextDesc();
                var error = new Native.Error();
                Handle = new ContextHandle();
                Progress = what.Progress;
                desc.devices = text.Add(what.Devices);
                desc.overrides = text.Add(what.Overrides);
                desc.cache = text.Pin(what.Cache, ref desc.cache_size);
                desc.mark = text.Pin(what.Mark, ref desc.mark_size);
                desc.device_memory_limit = what.MemoryLimit;
                desc.frames_in_flight = what.FramesInFlight;
                desc.max_slice_us = what.MaxSliceUs;
                desc.tune = Native.Flag(what.Tune);
                desc.trace = Native.Flag(what.Trace || what.TraceLight);
                desc.trace_light = Native.Flag(what.TraceLight);
                desc.vulkan = text.Array(what.Vulkan, ref desc.vulkan_count, Describe);
                if (what.Log != null) {
                    desc.logger.func = Marshal.GetFunctionPointerForDelegate(Native.Hear);
                    desc.logger.max_level = what.Level;
                    desc.logger.user = Handle.Keep(what.Log);
                }
                if (what.Progress != null) {
                    desc.progress.func = Marshal.GetFunctionPointerForDelegate(Native.Told);
                    desc.progress.user = Handle.Keep(what.Progress);
                }
                if (what.Threads > 0) {
                    desc.worker.run = Marshal.GetFunctionPointerForDelegate(Native.Work);
                    desc.worker.user = Handle.Keep(new Semaphore(what.Threads, what.Threads));
                }
                if (what.Marker != null) {
                    desc.marker.func = Marshal.GetFunctionPointerForDelegate(Native.Marked);
                    desc.marker.user = Handle.Keep(what.Marker);
                }
                IntPtr made;
                int result = Native.dit_context_create(ref desc, out made, ref error);
                Handle.Own(made, result, error);
            }
        }

        Native.Vulkan Describe(Vulkan own) {
            var vulkan = new Native.Vulkan {
                get_instance_proc_addr = own.GetInstanceProcAddr, instance = own.Instance, physical_device = own.PhysicalDevice,
                device = own.Device, api_version = own.ApiVersion, device_info = own.DeviceInfo, queue = own.Queue,
                queue_family = own.QueueFamily, transfer_queue = own.TransferQueue, transfer_family = own.TransferFamily,
                pipeline_cache = own.PipelineCache
            };
            if (own.Lock != null && own.Unlock != null) {
                vulkan.lock_queue = Marshal.GetFunctionPointerForDelegate(Native.Lock);
                vulkan.unlock_queue = Marshal.GetFunctionPointerForDelegate(Native.Unlock);
                vulkan.lock_user = Handle.Keep(own);
            }
            return vulkan;
        }

        // A model from a file or a diffusers folder. weightBudget: bytes of device memory for weights, the rest is streamed.
        // progress(part, bytes, of bytes) is called in this thread; false ends the call with an OperationCanceledException.
        public Model Load(string path, ulong weightBudget = 0, Func<string, ulong, ulong, bool> progress = null,
                          params Lora[] loras) {
            return Load(path, new LoadOptions { WeightBudget = weightBudget, Progress = progress, Loras = loras });
        }

        // path: null where components have all parts.
        public Model Load(string path, LoadOptions options) { return new Model(this, path, options); }

        // The first device, with the kernels in use.
        public Device Device {
            get {
                var error = new Native.Error();
                Native.DeviceInfo info;
                Native.Check(Native.dit_context_device(Handle, out info, ref error), error);
                return new Device(info);
            }
        }

        // All of its devices, the first one first.
        public Device[] Devices {
            get {
                return Array.ConvertAll(Native.Listed((Native.DeviceInfo[] infos, ref uint count, ref Native.Error error) =>
                    Native.dit_context_devices(Handle, infos, ref count, ref error)), info => new Device(info));
            }
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

        // A moment in the trace of a context with Trace.
        public void TraceMark(string name) {
            using (var text = new Texts()) Native.dit_trace_mark(Handle, text.Add(name));
        }

        // A range in the trace, until it is disposed of: using (context.TraceRange("mine")) ...
        public IDisposable TraceRange(string name) {
            using (var text = new Texts()) return new Range(Handle, Native.dit_trace_begin(Handle, text.Add(name)));
        }

        sealed class Range : IDisposable {
            readonly ContextHandle context;
            ulong range;
            internal Range(ContextHandle context, ulong range) {
                this.context = context;
                this.range = range;
            }
            public void Dispose() {
                Native.dit_trace_end(context, range);
                range = 0;
            }
        }

        // Writes the trace so far as JSON for ui.perfetto.dev, and empties it.
        public void TraceWrite(Stream to) {
            GCHandle user = GCHandle.Alloc(to);
            try {
                var error = new Native.Error();
                Native.Check(Native.dit_trace_write(Handle, Marshal.GetFunctionPointerForDelegate(Native.Written), GCHandle.ToIntPtr(user),
                                                    ref error), error);
            } finally {
                user.Free();
            }
        }

        public void Dispose() { Handle.Dispose(); }
    }

    // Weights. Several threads may paint with one model at the same time.
    public sealed class Model : IDisposable {
        internal readonly Context Context;
        internal readonly ModelHandle Handle;
        internal readonly ReaderWriterLockSlim Gate = new ReaderWriterLockSlim(LockRecursionPolicy.SupportsRecursion);
        readonly Dictionary<uint, float> strengths = new Dictionary<uint, float>(); // that SetLoraWeight has given
        Native.ModelInfo info;

        // context: null where the headers of the files are enough, see Describe.
        internal Model(Context context, string path, LoadOptions what) {
            Context = context;
            using (var text = new Texts()) {
                var desc = new Native.ModelDesc();
                var error = new Native.Error();
                IntPtr made;
                Handle = new ModelHandle(context == null ? null : context.Handle);
                try {
                    Describe(path ?? what.Path, what, text, ref desc);
                } catch {
                    Handle.Dispose();
                    throw;
                }
                desc.dry_run = Native.Flag(context == null);
                int result = context == null ? Native.dit_model_load(IntPtr.Zero, ref desc, out made, ref error)
                                             : Native.dit_model_load(context.Handle, ref desc, out made, ref error);
                Handle.Own(made, result, error);
                Native.dit_model_get_info(Handle, out info);
            }
        }

        // A model of headers alone, without a device: its properties, Weights, Memory and Inspect answer. Files may end before
        // their data.
        public static Model Describe(string path, LoadOptions options = null) { return new Model(null, path, options ?? new LoadOptions()); }

        void Describe(string path, LoadOptions what, Texts text, ref Native.ModelDesc desc) {
            var parts = new List<Native.Component>();
            foreach (Component part in what.Components ?? new Component[0])
                parts.Add(new Native.Component { source = Source(part.Path, part, text), role = (int)part.Role });
            foreach (Lora lora in what.Loras ?? new Lora[0]) parts.Add(Describe(lora, text));
            foreach (Role part in what.Parts ?? new Role[0]) desc.parts |= 1u << (int)part;
            desc.source = Source(path, what, text);
            desc.components = text.Array(parts.ToArray(), ref desc.component_count, part => part);
            desc.types = text.Array(what.Types, ref desc.type_count, rule =>
                new Native.TypeRule { tensors = text.Add(rule.Tensors), type = Library.TypeNumber(rule.Type) });
            desc.weight_budget = what.WeightBudget;
            desc.release_text_encoders = Native.Flag(what.ReleaseTextEncoders);
            desc.keep_streamed = Native.Flag(what.KeepStreamed);
            desc.weights_by_need = Native.Flag(what.WeightsByNeed);
            desc.int8_attention = Native.Flag(what.Int8Attention);
            desc.progress = text.Progress(what.Progress);
        }

        Native.Source Source(string path, Place place, Texts text) {
            if (path != null) return new Native.Source { path = text.Add(path) };
            if (place.Data != null) return new StreamSource(place.Data, false).Of(Handle);
            return place.Open != null ? new FolderSource(place.Open, Handle).Of() : new Native.Source();
        }

        Native.Component Describe(Lora lora, Texts text) {
            return new Native.Component {
                source = Source(lora.Path, lora, text), role = Native.RoleLora, weight = lora.Weight,
                merge = Native.Flag(lora.Merge), lora_of = lora.Second ? (int)Role.Transformer2 : 0
            };
        }

        public string Family { get { return Native.Text(info.family); } }
        public string Variant { get { return Native.Text(info.variant); } }
        public uint DefaultWidth { get { return info.default_width; } }
        public uint DefaultHeight { get { return info.default_height; } }
        public uint SizeMultiple { get { return info.size_multiple; } }
        public uint DefaultSteps { get { return info.default_steps; } }
        public uint DefaultFrames { get { return info.default_frames; } } // 0: a model of single pictures
        public float DefaultFps { get { return info.default_fps; } }
        public float DefaultGuidance { get { return info.default_guidance; } }
        public float DefaultLowGuidance { get { return info.default_low_guidance; } } // of Guided.LowScale; 0: DefaultGuidance
        public float DefaultSoundGuidance { get { return info.default_sound_guidance; } } // of Guided.SoundScale; 0: DefaultGuidance
        public string NegativePrompt { get { return info.negative_prompt == IntPtr.Zero ? null : Native.Text(info.negative_prompt); } } // the original's own
        public bool NegativeAlways { get { return info.negative_always != 0; } } // diffusers' pipeline guides away from it, too
        public uint SoundRate { get { return info.sound_rate; } } // samples of a second; 0: clips have no sound
        public uint SoundChannels { get { return info.sound_channels; } }
        public bool LacksSound { get { return info.lacks_sound != 0; } } // it makes sound, but audio_vae or vocoder is missing
        public string DefaultSampler { get { return Native.Text(info.default_sampler); } }
        public string DefaultSchedule { get { return Native.Text(info.default_schedule); } } // "": its scheduler's file decides
        public uint ClassCount { get { return info.class_count; } } // 0: the model takes prompts
        public bool WantsImage { get { return info.wants_image != 0; } } // Request.Init must be given
        public bool TakesImage { get { return info.takes_image != 0; } } // Init may be the first frame of a clip
        public bool WantsLastImage { get { return info.wants_last_image != 0; } } // InitFrames must be the first frame and the last
        public bool TakesLastImage { get { return info.takes_last_image != 0; } }
        public bool WantsMask { get { return info.wants_mask != 0; } } // Init and Mask must be given: the model repaints
        public bool WantsControl { get { return info.wants_control != 0; } } // Control must be given
        public bool TakesControl { get { return info.takes_control != 0; } } // Control may be a clip that is followed
        public bool HoldsFrames { get { return info.holds_frames != 0; } } // MaskStrategy and LoopCount are understood
        public uint ControlNetCount { get { return info.control_count; } }
        public uint LatentChannels { get { return info.latent_channels; } }
        public uint LatentFactor { get { return info.latent_factor; } } // pixels of an element of a latent
        public ulong WeightBytes { get { return info.weight_bytes; } } // of device memory
        public ulong StreamedBytes { get { return info.streamed_bytes; } } // beyond that, read while jobs run
        public ulong AbsentBytes { get { return info.absent_bytes; } } // missing at the files' ends, of Describe
        // Whether a part is there; tokenizers have no parameters, and are told by Lacks alone.
        public bool Has(Role part) {
            return part == Role.Sound ? info.sound_rate != 0 : Array.Exists(Meant(part), role => info.parameters[(int)role] != 0);
        }
        public bool Lacks(Role part) { return Array.Exists(Meant(part), role => (info.missing & 1u << (int)role) != 0); } // a prompt needs it

        // The parts of this model that a role stands for.
        Role[] Meant(Role part) {
            if (part == Role.Tokenizers) return new[] { Role.Tokenizer, Role.Tokenizer2, Role.Tokenizer3 };
            if (part != Role.T5) return new[] { part };
            return Array.FindAll(new[] { Role.TextEncoder, Role.TextEncoder2, Role.TextEncoder3 }, role => {
                IntPtr kind = info.encoders[role - Role.TextEncoder];
                return kind != IntPtr.Zero && Native.Text(kind).EndsWith("T5"); // mT5, umT5 and ByT5, too
            });
        }

        // The tensors of its files, part by part and type by type.
        public WeightInfo[] Weights() {
            return About(() => Array.ConvertAll(Native.Listed((Native.WeightInfo[] infos, ref uint count, ref Native.Error error) =>
                Native.dit_model_weights(Handle, infos, ref count, ref error)), row => new WeightInfo(row)));
        }

        // The number of a class, for Request.Classes; -1: there is none of that name.
        public int Class(string name) {
            using (var text = new Texts()) return About(() => Native.dit_model_class(Handle, text.Add(name)));
        }

        // The number of frames next to this one that GenerateClip can make; 0: the model's.
        public uint Frames(uint wanted = 0) { return About(() => Native.dit_model_frames(Handle, wanted)); }

        // A sentence about a distilled model whose files look like this one's; null: there is none.
        public string Distilled {
            get {
                IntPtr told = About(() => Native.dit_model_distilled(Handle));
                return told == IntPtr.Zero ? null : Native.Text(told);
            }
        }

        // True where it was made to edit the pictures of References; null: its files do not tell.
        public bool? Edits {
            get {
                int edits = About(() => Native.dit_model_edits(Handle));
                return edits < 0 ? (bool?)null : edits != 0;
            }
        }

        // The size of a picture that is made after a reference of this size; false: the model has no such size.
        public bool EditedSize(ref uint width, ref uint height) {
            Gate.EnterReadLock();
            try {
                return Native.dit_model_edited_size(Handle, ref width, ref height) != 0;
            } finally {
                Gate.ExitReadLock();
            }
        }

        // Its LoRAs by their numbers.
        public LoraInfo[] Loras {
            get {
                return About(() => {
                    var loras = new List<LoraInfo>();
                    Native.LoraInfo lora;
                    while (Native.dit_model_lora(Handle, (uint)loras.Count, out lora) == 0) {
                        float weight;
                        lock (strengths)
                            if (!strengths.TryGetValue((uint)loras.Count, out weight)) weight = lora.weight;
                        loras.Add(new LoraInfo(lora, weight));
                    }
                    return loras.ToArray();
                });
            }
        }

        // Adds a LoRA to the loaded model and returns its number; calls from then on have it. It waits for the calls about the
        // model that are under way in other threads, but not for jobs.
        public uint AddLora(Lora lora) {
            using (var text = new Texts()) {
                var error = new Native.Error();
                uint number;
                Gate.EnterWriteLock();
                try {
                    Native.Component component = Describe(lora, text);
                    Native.Check(Native.dit_model_add_lora(Handle, ref component, out number, ref error), error);
                    Native.dit_model_get_info(Handle, out info);
                } finally {
                    Gate.ExitWriteLock();
                }
                return number;
            }
        }

        // Gives a LoRA another strength in calls that say no LoraWeights; below 0 leads away from it.
        public void SetLoraWeight(uint number, float weight) {
            LoraInfo[] loras = Loras;
            if (number >= loras.Length) throw new ArgumentException("there is no LoRA " + number + "; the model has " + loras.Length);
            if (loras[number].Merged) throw new ArgumentException(loras[number].Name + " is merged, part of the weights for good");
            lock (strengths) strengths[number] = weight;
        }

        // Leaves a LoRA out of the calls from now on. It costs nothing then, but its memory, which is freed with the model's.
        public void RemoveLora(uint number) { SetLoraWeight(number, 0); }

        // A prompt as bytes for Request.Encoded, on a machine without the text encoders, too. weighted: (word:1.3) is read.
        public byte[] Encode(string prompt, bool weighted = false) {
            using (var text = new Texts()) {
                var error = new Native.Error();
                var size = UIntPtr.Zero;
                IntPtr words = text.Add(prompt);
                Native.Encoder encode = weighted ? Native.dit_encode_weighted_prompt : (Native.Encoder)Native.dit_encode_prompt;
                return About(() => {
                    Native.Check(encode(OnDevice, Handle, words, null, ref size, ref error), error);
                    var blob = new byte[(long)size];
                    Native.Check(encode(OnDevice, Handle, words, blob, ref size, ref error), error);
                    return blob;
                });
            }
        }

        // Encode in pieces, so that the next prompt is encoded beside a job.
        public PromptEncoding StartEncoding(string prompt, bool weighted = false) { return new PromptEncoding(this, prompt, weighted); }

        // Pictures as bytes [height][width][4], sRGB, rows from the top; of a model of clips single ones.
        // progress(fraction, step, steps) is called in this thread about 20 times a second; false ends the call, like cancel,
        // with an OperationCanceledException.
        public byte[][] Generate(Request what, Func<float, uint, uint, bool> progress = null,
                                 CancellationToken cancel = default(CancellationToken)) {
            return Paint(what, 1, progress, cancel);
        }

        // The frames of a clip, likewise; frames: such a number as the model can make; 0: DefaultFrames. Its sound is not made:
        // StartJob makes it, too, for Job.Sound.
        public byte[][] GenerateClip(Request what, uint frames = 0, Func<float, uint, uint, bool> progress = null,
                                     CancellationToken cancel = default(CancellationToken)) {
            if (what.Count > 1) throw new ArgumentException("Count is " + what.Count + "; a call makes one clip");
            return Paint(what, frames, progress, cancel);
        }

        byte[][] Paint(Request what, uint frames, Func<float, uint, uint, bool> progress, CancellationToken cancel) {
            Request silent = what.Copy();
            silent.NoSound = true;
            using (Job job = StartJob(silent, frames, cancel)) {
                job.Run(what.Preview, progress, cancel);
                return job.Pictures();
            }
        }

        // A Job that makes what Generate makes, or GenerateClip with other frames: for work in pieces, other prompts without planning
        // anew, floats, latents, and pictures that stay on the device.
        public Job StartJob(Request what, uint frames = 1, CancellationToken cancel = default(CancellationToken)) {
            return new Job(this, what, frames, cancel);
        }

        // The memory that Generate with these parameters needs, or GenerateClip with other frames; nothing is allocated.
        public MemoryNeed Memory(Request what, uint frames = 1) {
            using (var text = new Texts())
                return About(() => {
                    var error = new Native.Error();
                    Native.JobDesc desc = Describe(what, frames, text);
                    Native.Memory memory;
                    int result = Context == null ? Native.dit_job_memory(IntPtr.Zero, ref desc, out memory, ref error)
                                                 : Native.dit_job_memory(Context.Handle, ref desc, out memory, ref error);
                    Native.Check(result, error);
                    return new MemoryNeed(memory);
                });
        }

        // Every dispatch of such a job in order, and every tensor that it keeps on the device; nothing is allocated.
        public Plan Inspect(Request what, uint frames = 1) {
            var plan = new Plan();
            using (var text = new Texts())
                return About(() => {
                    var error = new Native.Error();
                    Native.JobDesc desc = Describe(what, frames, text);
                    var inspector = new Native.Inspector {
                        op = Marshal.GetFunctionPointerForDelegate(Native.HearOp), tensor = Marshal.GetFunctionPointerForDelegate(Native.HearTensor),
                        user = text.Keep(plan)
                    };
                    int result = Context == null ? Native.dit_job_inspect(IntPtr.Zero, ref desc, ref inspector, ref error)
                                                 : Native.dit_job_inspect(Context.Handle, ref desc, ref inspector, ref error);
                    Native.Check(result, error);
                    return plan;
                });
        }

        internal ContextHandle OnDevice {
            get {
                if (Context == null) throw new InvalidOperationException("Describe has read the headers of the model alone: Context.Load makes one that can work");
                return Context.Handle;
            }
        }

        // A call that reads the model, beside other such calls.
        internal T About<T>(Func<T> call) {
            var held = false;
            Handle.DangerousAddRef(ref held);
            Gate.EnterReadLock();
            try {
                return call();
            } finally {
                Gate.ExitReadLock();
                if (held) Handle.DangerousRelease();
            }
        }

        // Memory that the desc points to lives as long as text.
        internal Native.JobDesc Describe(Request what, uint frames, Texts text) {
            var desc = new Native.JobDesc { model = Handle.DangerousGetHandle(), frame_count = frames, fps = what.Fps };
            uint count = what.Count != 0 ? what.Count : 1;
            if (what.Classes != null && what.Classes.Length < count)
                throw new ArgumentException("Classes has " + what.Classes.Length + " labels for " + count + " pictures");
            if (what.Classes != null) desc.class_labels = text.Pin(what.Classes);
            else if (what.Encoded != null) desc.conditioning = text.Pin(what.Encoded, ref desc.conditioning_size);
            else desc.prompt = text.Add(what.Prompt);
            if (what.NegativeEncoded != null) desc.negative_conditioning = text.Pin(what.NegativeEncoded, ref desc.negative_conditioning_size);
            else desc.negative_prompt = text.Add(what.NegativePrompt);
            desc.prompt_weights = Native.Flag(what.PromptWeights);
            desc.sampler = text.Add(what.Sampler);
            desc.schedule = text.Add(what.Schedule);
            desc.cache = text.Add(what.Cache);
            desc.split = text.Add(what.Split);
            desc.mask_strategy = text.Add(what.MaskStrategy);
            Pixels first = DescribePictures(what, text, ref desc);
            desc.strength = what.Strength;
            desc.control_strength = what.ControlStrength;
            desc.preview_interval = what.Preview != null || what.Previews ? what.PreviewInterval : 0;
            desc.preview = (int)what.PreviewKind;
            desc.width = what.Width != 0 ? what.Width : first != null ? first.Width : info.default_width;
            desc.height = what.Height != 0 ? what.Height : first != null ? first.Height : info.default_height;
            desc.steps = what.Steps;
            desc.image_count = count;
            desc.seed = what.Seed;
            desc.rng = (int)what.Rng;
            desc.guidance = DescribeGuidance(what, what.Guided ?? new Guided());
            desc.shift = what.Shift;
            desc.eta = what.Eta;
            desc.clip_skip = what.ClipSkip;
            desc.vae_tile = what.VaeTile;
            desc.resume_on_loss = Native.Flag(what.ResumeOnLoss);
            desc.loop_count = what.LoopCount;
            desc.loop = what.Loop;
            desc.loop_frames = what.LoopFrames;
            desc.loop_edit = what.LoopEdit;
            desc.float_frames = Native.Flag(what.FloatFrames);
            desc.no_sound = Native.Flag(what.NoSound);
            desc.keep_state = Native.Flag(what.KeepState);
            desc.state = text.Pin(what.State, ref desc.state_size);
            desc.inputs = text.Array(what.Inputs, ref desc.input_count, tensor => DescribeTensor(tensor, text));
            float[] weights = what.LoraWeights ?? Strengths();
            if (weights != null) {
                desc.lora_weights = text.Pin(weights);
                desc.lora_weight_count = (uint)weights.Length;
            }
            if (what.Target != null) desc.target = DescribeTarget(what.Target);
            return desc;
        }

        float[] Strengths() {
            lock (strengths)
                return strengths.Count == 0 ? null : Array.ConvertAll(Loras, lora => lora.Weight);
        }

        // Returns the picture that the size is taken from, or null.
        static Pixels DescribePictures(Request what, Texts text, ref Native.JobDesc desc) {
            Pixels[] init = what.InitFrames ?? (what.Init == null ? null : new[] { what.Init });
            Pixels[] mask = what.Masks ?? (what.Mask == null ? null : new[] { what.Mask });
            Pixels[][] references = what.ReferenceClips ?? (what.References == null ? null : Array.ConvertAll(what.References, one => new[] { one }));
            desc.init_image = text.Array(init, ref desc.init_count, text.Image);
            desc.mask = text.Array(mask, ref desc.mask_count, text.Image);
            desc.control_image = text.Array(what.Control, ref desc.control_count, text.Image);
            desc.references = text.Array(references, ref desc.reference_count, frames => {
                var reference = new Native.Reference();
                reference.frames = text.Array(frames, ref reference.frame_count, text.Image);
                return reference;
            });
            desc.adapters = text.Array(what.ControlNets, ref desc.adapter_count, net =>
                new Native.Adapter { control = net.Number, weight = net.Weight, first = net.First, last = net.Last, mode = net.Mode,
                                     image = text.Image(net.Picture) });
            foreach (Pixels[] given in new[] { init, mask, what.Control })
                if (given != null && given.Length > 0) return given[0];
            return null;
        }

        static Native.Guidance DescribeGuidance(Request what, Guided more) {
            return new Native.Guidance {
                scale = what.Guidance, distilled = what.Distilled, rescale = more.Rescale, skip_layer = more.SkipLayer, first = more.First,
                last = more.Last, project = more.Project, norm_limit = more.NormLimit, skip_first = more.SkipFirst,
                skip_last = more.SkipLast, skip_blocks = more.SkipBlocks, dynamic = Native.Flag(more.Dynamic),
                low_scale = more.LowScale, length_limit = more.LengthLimit, sound_scale = more.SoundScale, perturb = more.Perturb,
                isolate = more.Isolate
            };
        }

        static Native.Tensor DescribeTensor(Tensor tensor, Texts text) {
            var shape = new ulong[5];
            tensor.Shape.CopyTo(shape, 0);
            return new Native.Tensor { name = text.Add(tensor.Name), type = Library.TypeNumber(tensor.Type), rank = (uint)tensor.Shape.Length,
                                       shape = shape, data = text.Pin(tensor.Data) };
        }

        static Native.Target DescribeTarget(Target to) {
            return new Native.Target {
                image = to.Image, format = to.Format, dst_queue_family = to.DstQueueFamily, final_layout = to.FinalLayout,
                dst_stage = to.DstStage, dst_access = to.DstAccess, mip = to.Mip, layer = to.Layer, usage = to.Usage, flags = to.Flags,
                export_handle = to.ExportHandle
            };
        }

        public void Dispose() { Handle.Dispose(); }
    }

    // A prompt that is encoded in pieces. One thread at a time.
    public sealed class PromptEncoding : IDisposable {
        readonly EncodingHandle handle;
        readonly byte[] blob;

        internal PromptEncoding(Model model, string prompt, bool weighted) {
            using (var text = new Texts()) {
                IntPtr words = text.Add(prompt);
                ContextHandle context = model.OnDevice;
                handle = new EncodingHandle(model.Handle);
                blob = model.About(() => {
                    var error = new Native.Error();
                    var size = UIntPtr.Zero;
                    IntPtr made;
                    int result = Native.dit_encoding_create(context, model.Handle, words, Native.Flag(weighted), out made, ref error);
                    handle.Own(made, result, error);
                    Native.Check(Native.dit_encode_prompt(context, model.Handle, words, null, ref size, ref error), error);
                    return new byte[(long)size];
                });
            }
        }

        // Submits the next piece and waits for nothing; null: call it again. Then what Encode gives. budgetUs: microseconds of
        // GPU work to have in flight; 0: one slice.
        public byte[] Step(uint budgetUs = 0) {
            var error = new Native.Error();
            var size = (UIntPtr)blob.LongLength;
            int result = Native.dit_encoding_step(handle, budgetUs, blob, ref size, ref error);
            Native.Check(result, error);
            return result == 0 ? (byte[])blob.Clone() : null;
        }

        public void Dispose() { handle.Dispose(); }
    }

    // A request: pictures or a clip, planned once. One thread at a time steps, waits, reads and restarts it; any thread may cancel
    // it, and ask for Status and Counters.
    public sealed class Job : IDisposable {
        readonly Model model;
        readonly JobHandle handle;
        uint width, height, images, frames;

        internal Job(Model model, Request what, uint frames, CancellationToken cancel) {
            this.model = model;
            this.frames = frames;
            ContextHandle context = model.OnDevice;
            var text = new Texts();
            try {
                handle = new JobHandle(model.Handle);
            } catch {
                text.Dispose();
                throw;
            }
            handle.Keep(text);
            try {
                model.About(() => {
                    var error = new Native.Error();
                    Native.JobDesc desc = Describe(what, text, cancel);
                    IntPtr made;
                    int result = Native.dit_job_create(context, ref desc, out made, ref error);
                    handle.Own(made, result, error);
                    return 0;
                });
            } catch {
                handle.Dispose();
                throw;
            }
        }

        Native.JobDesc Describe(Request what, Texts text, CancellationToken cancel) {
            Native.JobDesc desc = model.Describe(what, frames, text);
            Func<string, ulong, ulong, bool> progress = model.Context.Progress;
            desc.progress = text.Progress((part, done, total) => !cancel.IsCancellationRequested && (progress == null || progress(part, done, total)));
            width = desc.width;
            height = desc.height;
            images = desc.image_count;
            return desc;
        }

        // Submits the next piece and returns at once; true: the job is finished. budgetUs: microseconds of GPU work to have in
        // flight at most; 0: one slice.
        public bool Step(uint budgetUs = 0) { return Checked(Native.dit_job_step(handle, budgetUs)) == 0; }

        // Steps the job and waits for it, so many milliseconds at most, or to its end; true: it is finished.
        public bool Wait(uint milliseconds = uint.MaxValue) {
            return Checked(Native.dit_job_wait(handle, milliseconds == uint.MaxValue ? ulong.MaxValue : milliseconds * 1000000ul)) == 0;
        }

        // Asks the job to stop: its thread gets an OperationCanceledException within one slice. Any thread.
        public void Cancel() { Native.dit_job_cancel(handle); }

        // Runs every pipeline once, before the run begins, so that no later call pays for what drivers do then.
        public void WarmUp() {
            var error = new Native.Error();
            Native.Check(Native.dit_job_warm_up(handle, ref error), error);
        }

        // Runs the job again with another prompt, seed, guidance scale, inputs, LoRAs' strengths, loop or target; everything else
        // must be as before.
        public void Restart(Request what, CancellationToken cancel = default(CancellationToken)) {
            var text = new Texts();
            uint[] before = { width, height, images };
            try {
                model.About(() => {
                    var error = new Native.Error();
                    Native.JobDesc desc = Describe(what, text, cancel);
                    Native.Check(Native.dit_job_restart(handle, ref desc, ref error), error);
                    return 0;
                });
            } catch {
                text.Dispose();
                width = before[0];
                height = before[1];
                images = before[2];
                throw;
            }
            handle.Keep(text);
        }

        // Bytes from which an equal job goes on behind the newest step that was seen finished, as its Request.State, in another
        // process too; the job's request had KeepState or State. null: no step has begun.
        public byte[] SaveState() {
            var error = new Native.Error();
            var size = UIntPtr.Zero;
            Native.Check(Native.dit_job_save_state(handle, null, ref size, ref error), error); // the size, which stays the same
            var blob = new byte[(long)size];
            int result = Native.dit_job_save_state(handle, blob, ref size, ref error);
            Native.Check(result, error);
            return result == 0 ? blob : null;
        }

        // How far the job is. Any thread.
        public JobStatus Status {
            get {
                var error = new Native.Error();
                Native.Status status;
                Native.dit_job_status(handle, out status, ref error);
                return new JobStatus(status);
            }
        }

        // Its cost so far. Any thread.
        public JobCounters Counters {
            get {
                Native.Counters counters;
                Native.dit_job_get_counters(handle, out counters);
                return new JobCounters(counters);
            }
        }

        // The part of each device in it, the first one first.
        public JobShare[] Shares {
            get {
                return Array.ConvertAll(Native.Listed((Native.Share[] shares, ref uint count, ref Native.Error error) =>
                    Native.dit_job_shares(handle, shares, ref count, ref error)), share => new JobShare(share));
            }
        }

        // Frames at the beginning of each later clip of LoopCount that are also the last ones of the clip before.
        public uint Overlap { get { return Native.dit_job_overlap(handle); } }

        // A picture of the finished job, or a frame of its clip that is there, as bytes [height][width][4].
        public byte[] Picture(uint image = 0, uint frame = 0) {
            var pixels = new byte[(long)width * height * 4];
            Read(Native.ReadRgba, image, frame, pixels);
            return pixels;
        }

        // All pictures of the finished job; of clips all frames, one clip after the other.
        public byte[][] Pictures() {
            uint each = Status.FrameCount;
            var pictures = new byte[images * each][];
            for (uint i = 0; i < pictures.Length; i++) pictures[i] = Picture(i / each, i % each);
            return pictures;
        }

        // The decoder's output, F32 [height, width, 3], sRGB in 0..1, not clamped; of clips with FloatFrames.
        public Tensor Floats(uint image = 0, uint frame = 0) {
            var values = new float[(long)width * height * 3];
            Read(Native.ReadFloats, image, frame, values);
            return new Tensor(null, new ulong[] { height, width, 3 }, values);
        }

        // The sampler's last x, F32 [C, h, w], of clips [C, latent frames, h, w], before scaling and shift.
        public Tensor Latent(uint image = 0) {
            ulong h = height / model.LatentFactor, w = width / model.LatentFactor, plane = model.LatentChannels * h * w;
            for (ulong deep = 1;; deep++) { // a clip's latent frames, whose number no function tells
                var values = new float[deep * plane];
                try {
                    Read(Native.ReadLatent, image, 0, values);
                } catch (DitException e) {
                    if (deep < 4096 && e.Message.Contains("the latent needs")) continue;
                    throw;
                }
                return new Tensor(null, deep == 1 ? new[] { model.LatentChannels, h, w } : new[] { model.LatentChannels, deep, h, w }, values);
            }
        }

        // The sound of the finished clip, F32 [samples, channels] in -1..1; the model's SoundRate is the samples of a second.
        public Tensor Sound(uint image = 0) {
            ulong samples = Status.SoundSamples, channels = model.SoundChannels;
            var values = new float[samples * channels];
            Read(Native.ReadSound, image, 0, values);
            return new Tensor(null, new[] { samples, channels }, values);
        }

        // The newest preview; null: there is none yet.
        public Pixels Preview() {
            Native.Output output;
            if (Checked(Native.dit_job_preview(handle, out output)) != 0) return null;
            var pixels = new byte[(long)output.width * output.height * 4];
            Read(Native.ReadPreview, 0, 0, pixels);
            return new Pixels(output.width, output.height, pixels);
        }

        // ---- on a device of the application's: pictures that stay there, work in its command buffers ----

        // The picture as an image on the device; null: its commands are not all submitted, or recorded.
        public JobOutput Output(uint image = 0, uint frame = 0) {
            Native.Output output;
            return Checked(Native.dit_job_output(handle, image, frame, out output)) == 0 ? new JobOutput(output) : null;
        }

        // The memory of a picture for another device or API, of a request whose Target has an ExportHandle.
        public JobExport Export(uint image = 0) {
            var error = new Native.Error();
            Native.Export export;
            Native.Check(Native.dit_job_export(handle, image, out export, ref error), error);
            return new JobExport(export);
        }

        // Appends the next piece to a VkCommandBuffer outside of a render pass; true: the whole job is recorded.
        public bool Record(IntPtr commands, uint budgetUs = 0) { return Checked(Native.dit_job_record(handle, commands, budgetUs)) == 0; }

        // Takes the newest Record back, whose commands will never be submitted.
        public void Unrecord() { Checked(Native.dit_job_unrecord(handle)); }

        // Tells how long the commands of the oldest Record took that nothing was told about; 0: unknown.
        public void RecordTook(uint microseconds) { Checked(Native.dit_job_record_took(handle, microseconds)); }

        // Closes the job, and destroys it when the VkSemaphore timeline has come to value; waits for nothing. 0: when the commands
        // that are submitted so far have finished.
        public void Retire(ulong timeline = 0, ulong value = 0) {
            handle.Retire(timeline, value);
            handle.Dispose();
        }

        internal void Run(Action<Pixels, uint> preview, Func<float, uint, uint, bool> progress, CancellationToken cancel) {
            uint shown = 0;
            bool done;
            do {
                if (cancel.IsCancellationRequested) Cancel();
                done = Wait(50);
                JobStatus status = Status;
                if (preview != null && status.PreviewId != shown) {
                    Pixels picture = Preview();
                    shown = status.PreviewId;
                    if (picture != null) preview(picture, status.Step);
                }
                if (progress != null && !progress(status.Fraction, status.Step, status.StepCount)) Cancel();
            } while (!done);
        }

        // The result of a function of a running job, whose message the job keeps.
        int Checked(int result) {
            var error = new Native.Error();
            Native.Status status;
            if (result < 0) Native.dit_job_status(handle, out status, ref error);
            Native.Check(result, error);
            return result;
        }

        void Read(int what, uint image, uint frame, Array to) {
            var error = new Native.Error();
            GCHandle pinned = GCHandle.Alloc(to, GCHandleType.Pinned);
            int result;
            try {
                result = Native.dit_job_read(handle, what, image, frame, pinned.AddrOfPinnedObject(), (UIntPtr)Buffer.ByteLength(to), UIntPtr.Zero,
                                             ref error);
            } finally {
                pinned.Free();
            }
            Native.Check(result, error);
            if (result == Native.Working) throw new DitException("the job is not finished", Native.Working);
        }

        public void Dispose() { handle.Dispose(); }
    }

    // ---- what follows is the C interface ----

    // An object of the library, destroyed when nobody uses it any more: whoever is disposed of or collected first, objects go
    // before what they were made of.
    internal abstract class Handle : SafeHandle {
        readonly SafeHandle parent;
        readonly bool held;
        readonly List<GCHandle> kept = new List<GCHandle>();
        internal Handle(SafeHandle parent) : base(IntPtr.Zero, true) {
            this.parent = parent;
            if (parent != null) parent.DangerousAddRef(ref held);
        }
        // Keeps what C may call for as long as the object lives.
        internal IntPtr Keep(object hook) {
            GCHandle handle = GCHandle.Alloc(hook);
            lock (kept) kept.Add(handle);
            return GCHandle.ToIntPtr(handle);
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
        public override bool IsInvalid { get { return false; } } // hooks are freed, too, where there is no object
        protected abstract void Destroy();
        protected override bool ReleaseHandle() {
            Destroy();
            Native.Forget();
            foreach (GCHandle hook in kept) {
                var file = hook.Target as StreamSource;
                if (file != null) file.Dispose();
                hook.Free();
            }
            if (held) parent.DangerousRelease();
            return true;
        }
    }

    internal sealed class ContextHandle : Handle {
        internal ContextHandle() : base(null) {}
        protected override void Destroy() { Native.dit_context_destroy(handle); }
    }

    internal sealed class ModelHandle : Handle {
        internal ModelHandle(ContextHandle context) : base(context) {}
        protected override void Destroy() { Native.dit_model_destroy(handle); }
    }

    internal sealed class EncodingHandle : Handle {
        internal EncodingHandle(ModelHandle model) : base(model) {}
        protected override void Destroy() { Native.dit_encoding_destroy(handle); }
    }

    internal sealed class JobHandle : Handle {
        Texts given; // what the request points to
        bool retire;
        ulong timeline, value;
        internal JobHandle(ModelHandle model) : base(model) {}
        internal void Keep(Texts text) {
            if (given != null) given.Dispose();
            given = text;
        }
        internal void Retire(ulong timeline, ulong value) {
            retire = true;
            this.timeline = timeline;
            this.value = value;
        }
        protected override void Destroy() {
            if (retire) Native.dit_job_retire(handle, timeline, value);
            else Native.dit_job_destroy(handle);
            if (given != null) given.Dispose();
        }
    }

    // A file that C reads through a stream, one reader at a time.
    internal sealed class StreamSource : IDisposable {
        readonly Stream stream;
        readonly bool owned;
        internal StreamSource(Stream stream, bool owned) {
            this.stream = stream;
            this.owned = owned;
        }
        internal Native.Source Of(Handle keeper) {
            return new Native.Source { size = (ulong)stream.Length, read_at = Marshal.GetFunctionPointerForDelegate(Native.Read), user = keeper.Keep(this) };
        }
        internal int Read(ulong offset, IntPtr to, ulong size) {
            lock (stream) {
                var bytes = new byte[Math.Min(size, 1u << 20)]; // C asks for the rest
                stream.Seek((long)offset, SeekOrigin.Begin);
                int count = stream.Read(bytes, 0, bytes.Length);
                Marshal.Copy(bytes, 0, to, count);
                return count;
            }
        }
        public void Dispose() {
            if (owned) stream.Dispose();
        }
    }

    // A folder whose files a function opens.
    internal sealed class FolderSource {
        readonly Func<string, Stream> open;
        readonly Handle keeper;
        internal FolderSource(Func<string, Stream> open, Handle keeper) {
            this.open = open;
            this.keeper = keeper;
        }
        internal Native.Source Of() {
            return new Native.Source { open = Marshal.GetFunctionPointerForDelegate(Native.Open), user = keeper.Keep(this) };
        }
        internal bool Find(string member, IntPtr to) {
            Stream stream = open(member);
            if (stream != null) Marshal.StructureToPtr(new StreamSource(stream, true).Of(keeper), to, false);
            return stream != null;
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
        internal IntPtr Pin(byte[] bytes, ref UIntPtr size) {
            if (bytes == null) return IntPtr.Zero;
            size = (UIntPtr)bytes.LongLength;
            return Pin(bytes);
        }
        internal IntPtr Keep(object hook) {
            pinned.Add(GCHandle.Alloc(hook));
            return GCHandle.ToIntPtr(pinned[pinned.Count - 1]);
        }
        // An array of C's structures, each made by describe.
        internal IntPtr Array<From, To>(From[] from, ref uint count, Func<From, To> describe) {
            if (from == null || from.Length == 0) return IntPtr.Zero;
            int size = Marshal.SizeOf(typeof(To));
            IntPtr array = Marshal.AllocHGlobal(from.Length * size);
            list.Add(array);
            for (int i = 0; i < from.Length; i++) Marshal.StructureToPtr(describe(from[i]), (IntPtr)((long)array + i * size), false);
            count = (uint)from.Length;
            return array;
        }
        internal Native.Image Image(Pixels picture) {
            return new Native.Image {width = picture.Width, height = picture.Height, rgba = Pin(picture.Rgba)};
        }
        internal Native.Progress Progress(Func<string, ulong, ulong, bool> progress) {
            if (progress == null) return new Native.Progress();
            return new Native.Progress {func = Marshal.GetFunctionPointerForDelegate(Native.Told), user = Keep(progress)};
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
            list.Clear();
            pinned.Clear();
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
        internal const int Working = 1, Cancelled = 2, ReadRgba = 0, ReadFloats = 1, ReadLatent = 2, ReadPreview = 3, ReadSound = 4, RoleLora = 11, ErrorIo = -8;
        const string Library = "dit";
        const CallingConvention C = CallingConvention.Cdecl; // Windows of 32 bits has another one for what says nothing

        [StructLayout(LayoutKind.Sequential)] internal struct Error {
            [MarshalAs(UnmanagedType.ByValArray, SizeConst = 504)] public byte[] message;
            public int result, vk;
            public uint device;
        }
        [StructLayout(LayoutKind.Sequential)] internal struct Three { IntPtr a, b, c; }
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
        [StructLayout(LayoutKind.Sequential)] internal struct Worker {
            public IntPtr run, user;
        }
        [StructLayout(LayoutKind.Sequential)] internal struct Marker {
            public IntPtr func, user;
        }
        [StructLayout(LayoutKind.Sequential)] internal struct Vulkan {
            public IntPtr get_instance_proc_addr, instance, physical_device, device;
            public uint api_version;
            public IntPtr device_info, queue;
            public uint queue_family;
            public IntPtr transfer_queue;
            public uint transfer_family;
            public IntPtr lock_queue, unlock_queue, lock_user;
            public ulong pipeline_cache;
            public IntPtr host_callbacks;
        }
        [StructLayout(LayoutKind.Sequential)] internal struct DeviceInfo {
            [MarshalAs(UnmanagedType.ByValArray, SizeConst = 256)] public byte[] name;
            [MarshalAs(UnmanagedType.ByValArray, SizeConst = 16)] public byte[] uuid;
            public uint vendor, type, api_version, driver_version;
            public ulong memory;
            [MarshalAs(UnmanagedType.ByValArray, SizeConst = 32)] public byte[] rung;
        }
        [StructLayout(LayoutKind.Sequential)] internal struct ContextDesc {
            uint _zero_begin;
            public IntPtr devices, vulkan;
            public uint vulkan_count;
            public Transport transport;
            public Three allocator, device_allocator;
            public Logger logger;
            public Worker worker;
            public Progress progress;
            public IntPtr cache;
            public UIntPtr cache_size;
            public Marker marker;
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
        [StructLayout(LayoutKind.Sequential)] internal struct TypeRule {
            public IntPtr tensors;
            public int type;
        }
        [StructLayout(LayoutKind.Sequential)] internal struct LoraInfo {
            [MarshalAs(UnmanagedType.ByValArray, SizeConst = 64)] public byte[] name;
            public float weight;
            public byte merged;
            public uint modules, left_out;
            [MarshalAs(UnmanagedType.ByValArray, SizeConst = 128)] public byte[] first_left_out;
            public uint rank, dense;
            public ulong bytes;
            public uint steps;
            public float guidance;
            public byte only_merged;
        }
        [StructLayout(LayoutKind.Sequential)] internal struct WeightInfo {
            public int role, type;
            public uint tensor_count;
            public ulong parameters, file_bytes, device_bytes;
        }
        [StructLayout(LayoutKind.Sequential)] internal struct Reference {
            public IntPtr frames;
            public uint frame_count;
        }
        [StructLayout(LayoutKind.Sequential)] internal struct Tensor {
            public IntPtr name;
            public int type;
            public uint rank;
            [MarshalAs(UnmanagedType.ByValArray, SizeConst = 5)] public ulong[] shape;
            public IntPtr data;
        }
        [StructLayout(LayoutKind.Sequential)] internal struct Adapter {
            public uint control;
            public float weight, first, last;
            public uint mode;
            public Image image;
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
        [StructLayout(LayoutKind.Sequential)] internal struct Counters {
            public ulong dispatches, submits, recordings, allocations, pipelines, peer_bytes, streamed_bytes;
        }
        [StructLayout(LayoutKind.Sequential)] internal struct Share {
            public uint device;
            public float part;
            public ulong step_bytes;
            [MarshalAs(UnmanagedType.ByValArray, SizeConst = 160)] public byte[] work;
        }
        [StructLayout(LayoutKind.Sequential)] internal struct Export {
            public long handle;
            public uint handle_type, memory_type;
            public ulong size;
            public uint format, width, height, usage, flags, layout;
        }
        [StructLayout(LayoutKind.Sequential)] internal struct Memory {
            public ulong weights, activations, peak;
            public UIntPtr host;
            public ulong streamed, device_local, host_visible;
            [MarshalAs(UnmanagedType.ByValArray, SizeConst = 128)] public byte[] split;
            public double seconds;
        }
        [StructLayout(LayoutKind.Sequential)] internal struct OpInfo {
            public IntPtr name, segment, weight, output;
            public uint index, runs;
            public int kind;
            [MarshalAs(UnmanagedType.ByValArray, SizeConst = 5)] public uint[] shape;
            public double flops, bytes;
            public ulong live;
        }
        [StructLayout(LayoutKind.Sequential)] internal struct TensorInfo {
            public IntPtr name;
            public int type;
            public uint rows, columns;
            public ulong bytes, offset;
            public uint block, first_op, last_op;
            public byte arena;
        }
        [StructLayout(LayoutKind.Sequential)] internal struct Inspector {
            public IntPtr op, tensor, user;
        }

        [DllImport(Library, CallingConvention = C)] internal static extern uint dit_version();
        [DllImport(Library, CallingConvention = C)] internal static extern IntPtr dit_result_string(int result);
        [DllImport(Library, CallingConvention = C)] internal static extern IntPtr dit_type_name(int type);
        [DllImport(Library, CallingConvention = C)] internal static extern IntPtr dit_sampler_name(uint index);
        [DllImport(Library, CallingConvention = C)] internal static extern IntPtr dit_schedule_name(uint index);
        [DllImport(Library, CallingConvention = C)]
        internal static extern int dit_find_sampler(IntPtr text, out IntPtr sampler, out IntPtr schedule, ref Error error);
        [DllImport(Library, CallingConvention = C)]
        internal static extern int dit_find_schedule(IntPtr text, out IntPtr schedule, ref Error error);
        [DllImport(Library, CallingConvention = C)]
        internal static extern int dit_device_list([In, Out] DeviceInfo[] infos, ref uint count, ref Error error);
        [DllImport(Library, CallingConvention = C)]
        internal static extern int dit_device_extend(IntPtr gipa, IntPtr instance, IntPtr gpu, IntPtr app, IntPtr memory, ref UIntPtr size, IntPtr made, ref Error error);
        [DllImport(Library, CallingConvention = C)]
        internal static extern int dit_context_create(ref ContextDesc desc, out IntPtr made, ref Error error);
        [DllImport(Library, CallingConvention = C)]
        internal static extern int dit_context_device(ContextHandle context, out DeviceInfo info, ref Error error);
        [DllImport(Library, CallingConvention = C)]
        internal static extern int dit_context_devices(ContextHandle context, [In, Out] DeviceInfo[] infos, ref uint count, ref Error error);
        [DllImport(Library, CallingConvention = C)]
        internal static extern int dit_context_save_cache(ContextHandle context, [Out] byte[] blob, ref UIntPtr size, ref Error error);
        [DllImport(Library, CallingConvention = C)] internal static extern void dit_context_destroy(IntPtr context);
        [DllImport(Library, CallingConvention = C)]
        internal static extern int dit_model_load(ContextHandle context, ref ModelDesc desc, out IntPtr made, ref Error error);
        [DllImport(Library, CallingConvention = C)]
        internal static extern int dit_model_load(IntPtr none, ref ModelDesc desc, out IntPtr made, ref Error error);
        [DllImport(Library, CallingConvention = C)]
        internal static extern void dit_model_get_info(ModelHandle model, out ModelInfo info);
        [DllImport(Library, CallingConvention = C)]
        internal static extern int dit_model_weights(ModelHandle model, [In, Out] WeightInfo[] infos, ref uint count, ref Error error);
        [DllImport(Library, CallingConvention = C)] internal static extern int dit_model_class(ModelHandle model, IntPtr name);
        [DllImport(Library, CallingConvention = C)] internal static extern uint dit_model_frames(ModelHandle model, uint frames);
        [DllImport(Library, CallingConvention = C)] internal static extern IntPtr dit_model_distilled(ModelHandle model);
        [DllImport(Library, CallingConvention = C)] internal static extern int dit_model_edits(ModelHandle model);
        [DllImport(Library, CallingConvention = C)]
        internal static extern byte dit_model_edited_size(ModelHandle model, ref uint width, ref uint height);
        [DllImport(Library, CallingConvention = C)]
        internal static extern int dit_model_add_lora(ModelHandle model, ref Component lora, out uint number, ref Error error);
        [DllImport(Library, CallingConvention = C)]
        internal static extern int dit_model_lora(ModelHandle model, uint number, out LoraInfo info);
        [DllImport(Library, CallingConvention = C)] internal static extern void dit_model_destroy(IntPtr model);
        [DllImport(Library, CallingConvention = C)]
        internal static extern int dit_encode_prompt(ContextHandle context, ModelHandle model, IntPtr prompt, [Out] byte[] blob, ref UIntPtr size, ref Error error);
        [DllImport(Library, CallingConvention = C)]
        internal static extern int dit_encode_weighted_prompt(ContextHandle context, ModelHandle model, IntPtr prompt, [Out] byte[] blob, ref UIntPtr size, ref Error error);
        [DllImport(Library, CallingConvention = C)]
        internal static extern int dit_encoding_create(ContextHandle context, ModelHandle model, IntPtr prompt, byte weighted, out IntPtr made, ref Error error);
        [DllImport(Library, CallingConvention = C)]
        internal static extern int dit_encoding_step(EncodingHandle encoding, uint budget_us, [In, Out] byte[] blob, ref UIntPtr size, ref Error error);
        [DllImport(Library, CallingConvention = C)] internal static extern void dit_encoding_destroy(IntPtr encoding);
        [DllImport(Library, CallingConvention = C)]
        internal static extern int dit_mix_prompts(byte[] a, byte[] b, UIntPtr size, float part, [Out] byte[] blob, ref Error error);
        [DllImport(Library, CallingConvention = C)]
        internal static extern int dit_job_memory(ContextHandle context, ref JobDesc desc, out Memory memory, ref Error error);
        [DllImport(Library, CallingConvention = C)]
        internal static extern int dit_job_memory(IntPtr none, ref JobDesc desc, out Memory memory, ref Error error);
        [DllImport(Library, CallingConvention = C)]
        internal static extern int dit_job_inspect(ContextHandle context, ref JobDesc desc, ref Inspector inspector, ref Error error);
        [DllImport(Library, CallingConvention = C)]
        internal static extern int dit_job_inspect(IntPtr none, ref JobDesc desc, ref Inspector inspector, ref Error error);
        [DllImport(Library, CallingConvention = C)]
        internal static extern int dit_job_create(ContextHandle context, ref JobDesc desc, out IntPtr made, ref Error error);
        [DllImport(Library, CallingConvention = C)]
        internal static extern int dit_job_restart(JobHandle job, ref JobDesc desc, ref Error error);
        [DllImport(Library, CallingConvention = C)]
        internal static extern int dit_job_save_state(JobHandle job, [Out] byte[] blob, ref UIntPtr size, ref Error error);
        [DllImport(Library, CallingConvention = C)] internal static extern int dit_job_warm_up(JobHandle job, ref Error error);
        [DllImport(Library, CallingConvention = C)]
        internal static extern int dit_job_record(JobHandle job, IntPtr commands, uint budget_us);
        [DllImport(Library, CallingConvention = C)] internal static extern int dit_job_unrecord(JobHandle job);
        [DllImport(Library, CallingConvention = C)] internal static extern int dit_job_record_took(JobHandle job, uint us);
        [DllImport(Library, CallingConvention = C)] internal static extern int dit_job_step(JobHandle job, uint budget_us);
        [DllImport(Library, CallingConvention = C)] internal static extern int dit_job_wait(JobHandle job, ulong timeout_ns);
        [DllImport(Library, CallingConvention = C)] internal static extern void dit_job_cancel(JobHandle job);
        [DllImport(Library, CallingConvention = C)]
        internal static extern void dit_job_status(JobHandle job, out Status status, ref Error error);
        [DllImport(Library, CallingConvention = C)]
        internal static extern void dit_job_get_counters(JobHandle job, out Counters counters);
        [DllImport(Library, CallingConvention = C)]
        internal static extern int dit_job_shares(JobHandle job, [In, Out] Share[] shares, ref uint count, ref Error error);
        [DllImport(Library, CallingConvention = C)]
        internal static extern int dit_job_output(JobHandle job, uint image, uint frame, out Output output);
        [DllImport(Library, CallingConvention = C)] internal static extern int dit_job_preview(JobHandle job, out Output preview);
        [DllImport(Library, CallingConvention = C)]
        internal static extern int dit_job_export(JobHandle job, uint image, out Export export, ref Error error);
        [DllImport(Library, CallingConvention = C)]
        internal static extern int dit_job_read(JobHandle job, int what, uint image, uint frame, IntPtr to, UIntPtr size, UIntPtr row_pitch, ref Error error);
        [DllImport(Library, CallingConvention = C)] internal static extern uint dit_job_overlap(JobHandle job);
        [DllImport(Library, CallingConvention = C)] internal static extern void dit_job_destroy(IntPtr job);
        [DllImport(Library, CallingConvention = C)]
        internal static extern void dit_job_retire(IntPtr job, ulong timeline, ulong value);
        [DllImport(Library, CallingConvention = C)]
        internal static extern void dit_trace_mark(ContextHandle context, IntPtr name);
        [DllImport(Library, CallingConvention = C)]
        internal static extern ulong dit_trace_begin(ContextHandle context, IntPtr name);
        [DllImport(Library, CallingConvention = C)] internal static extern void dit_trace_end(ContextHandle context, ulong range);
        [DllImport(Library, CallingConvention = C)]
        internal static extern int dit_trace_write(ContextHandle context, IntPtr write, IntPtr user, ref Error error);

        internal delegate int Encoder(ContextHandle context, ModelHandle model, IntPtr prompt, byte[] blob, ref UIntPtr size, ref Error error);
        internal delegate int Lister<T>(T[] infos, ref uint count, ref Error error);

        // The entries that a function writes to an array whose length it tells first.
        internal static T[] Listed<T>(Lister<T> list) {
            var error = new Error();
            uint count = 0;
            Check(list(null, ref count, ref error), error);
            var infos = new T[count];
            Check(list(infos, ref count, ref error), error);
            Array.Resize(ref infos, (int)count);
            return infos;
        }

        internal static byte Flag(bool value) { return value ? (byte)1 : (byte)0; }

        [UnmanagedFunctionPointer(CallingConvention.Cdecl)]
        internal delegate void LogFunction(int level, IntPtr message, IntPtr user);
        internal static readonly LogFunction Hear = OnMessage; // kept for as long as the library may call it
        [UnmanagedFunctionPointer(CallingConvention.Cdecl)]
        internal delegate byte ProgressFunction(IntPtr what, ulong done, ulong total, IntPtr user);
        internal static readonly ProgressFunction Told = OnProgress;
        [UnmanagedFunctionPointer(CallingConvention.Cdecl)]
        internal delegate void TaskFunction(IntPtr argument);
        [UnmanagedFunctionPointer(CallingConvention.Cdecl)]
        internal delegate byte WorkFunction(IntPtr task, IntPtr argument, IntPtr user);
        internal static readonly WorkFunction Work = OnWork;
        [UnmanagedFunctionPointer(CallingConvention.Cdecl)]
        internal delegate void MarkFunction(IntPtr mark, UIntPtr size, IntPtr user);
        internal static readonly MarkFunction Marked = OnMark;
        [UnmanagedFunctionPointer(CallingConvention.Cdecl)]
        internal delegate void LockFunction(IntPtr user);
        internal static readonly LockFunction Lock = OnLock, Unlock = OnUnlock;
        [UnmanagedFunctionPointer(CallingConvention.Cdecl)]
        internal delegate byte WriteFunction(IntPtr data, UIntPtr size, IntPtr user);
        internal static readonly WriteFunction Written = OnWrite;
        [UnmanagedFunctionPointer(CallingConvention.Cdecl)]
        internal delegate byte InfoFunction(IntPtr info, IntPtr user);
        [UnmanagedFunctionPointer(CallingConvention.Cdecl)]
        internal delegate long ReadFunction(ulong offset, IntPtr to, UIntPtr size, IntPtr user);
        internal static readonly ReadFunction Read = OnRead;
        [UnmanagedFunctionPointer(CallingConvention.Cdecl)]
        internal delegate int OpenFunction(IntPtr member, IntPtr to, IntPtr user);
        internal static readonly OpenFunction Open = OnOpen;
        internal static readonly InfoFunction HearOp = OnOp, HearTensor = OnTensor;
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

        // Calls a listener. An exception is kept for Check, and ends the call.
        static byte Listen(Action call) {
            try {
                if (thrown == null) call();
            } catch (Exception e) {
                thrown = e;
            }
            return Flag(thrown == null);
        }

        [MonoPInvokeCallback(typeof(WorkFunction))]
        static byte OnWork(IntPtr task, IntPtr argument, IntPtr user) {
            var free = (Semaphore)GCHandle.FromIntPtr(user).Target;
            if (!free.WaitOne(0)) return 0;
            try {
                var call = (TaskFunction)Marshal.GetDelegateForFunctionPointer(task, typeof(TaskFunction));
                new Thread(() => {
                    call(argument);
                    free.Release();
                }) { IsBackground = true }.Start();
                return 1;
            } catch (Exception) { // there is no thread: the one that calls does the work
                free.Release();
                return 0;
            }
        }

        [MonoPInvokeCallback(typeof(MarkFunction))]
        static void OnMark(IntPtr mark, UIntPtr size, IntPtr user) {
            Listen(() => {
                var bytes = new byte[(int)size];
                if (bytes.Length > 0) Marshal.Copy(mark, bytes, 0, bytes.Length);
                ((Action<byte[]>)GCHandle.FromIntPtr(user).Target)(bytes);
            });
        }

        [MonoPInvokeCallback(typeof(LockFunction))]
        static void OnLock(IntPtr user) { Always(((Dit.Vulkan)GCHandle.FromIntPtr(user).Target).Lock); }

        [MonoPInvokeCallback(typeof(LockFunction))]
        static void OnUnlock(IntPtr user) { Always(((Dit.Vulkan)GCHandle.FromIntPtr(user).Target).Unlock); }

        static void Always(Action call) { // whatever was thrown before: a queue that is locked is unlocked
            try {
                call();
            } catch (Exception e) {
                thrown = thrown ?? e;
            }
        }

        [MonoPInvokeCallback(typeof(WriteFunction))]
        static byte OnWrite(IntPtr data, UIntPtr size, IntPtr user) {
            return Listen(() => {
                var bytes = new byte[(int)size];
                Marshal.Copy(data, bytes, 0, bytes.Length);
                ((Stream)GCHandle.FromIntPtr(user).Target).Write(bytes, 0, bytes.Length);
            });
        }

        [MonoPInvokeCallback(typeof(ReadFunction))]
        static long OnRead(ulong offset, IntPtr to, UIntPtr size, IntPtr user) {
            long count = -1;
            Listen(() => count = ((StreamSource)GCHandle.FromIntPtr(user).Target).Read(offset, to, (ulong)size));
            return count;
        }

        [MonoPInvokeCallback(typeof(OpenFunction))]
        static int OnOpen(IntPtr member, IntPtr to, IntPtr user) {
            var found = false;
            Listen(() => {
                try {
                    found = ((FolderSource)GCHandle.FromIntPtr(user).Target).Find(Text(member), to);
                } catch (FileNotFoundException) { // the answer to a file that the folder has not
                } catch (DirectoryNotFoundException) {
                }
            });
            return found ? 0 : ErrorIo;
        }

        static readonly string[] kinds = { "product", "convolution", "attention", "other" };

        [MonoPInvokeCallback(typeof(InfoFunction))]
        static byte OnOp(IntPtr at, IntPtr user) {
            return Listen(() => {
                var info = (OpInfo)Marshal.PtrToStructure(at, typeof(OpInfo));
                ((Plan)GCHandle.FromIntPtr(user).Target).Ops.Add(new Op {
                    Name = Text(info.name), Segment = Text(info.segment), Weight = Text(info.weight), Output = Text(info.output),
                    Kind = kinds[info.kind], Number = info.index, Runs = info.runs, Shape = Array.FindAll(info.shape, size => size != 0),
                    Flops = info.flops, Bytes = info.bytes, Live = info.live
                });
            });
        }

        [MonoPInvokeCallback(typeof(InfoFunction))]
        static byte OnTensor(IntPtr at, IntPtr user) {
            return Listen(() => {
                var info = (TensorInfo)Marshal.PtrToStructure(at, typeof(TensorInfo));
                ((Plan)GCHandle.FromIntPtr(user).Target).Tensors.Add(new Planned {
                    Name = Text(info.name), Type = Dit.Library.TypeName(info.type), Rows = info.rows, Columns = info.columns, Bytes = info.bytes,
                    Offset = info.offset, Block = info.block, FirstOp = info.first_op, LastOp = info.last_op, Arena = info.arena != 0
                });
            });
        }

        internal static void Forget() { thrown = null; } // of an object's end, which throws nothing

        internal static string Text(IntPtr message) {
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
            throw new DitException(message != "" ? message : Dit.Library.ResultText(result), result);
        }
    }
}
