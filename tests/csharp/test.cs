// The test of dit.cs, from an installed prefix: test.exe layouts prints the structures of dit.cs as tests/packages.sh gets
// them from the C compiler, test.exe names its public members; test.exe MODEL makes pictures and mistakes.
using System;
using System.Collections.Generic;
using System.IO;
using System.Linq;
using System.Reflection;
using System.Runtime.InteropServices;
using System.Text.RegularExpressions;
using System.Threading;

static class Test {
    static int checks;

    static void Check(bool good, string what) {
        checks++;
        if (!good) throw new Exception("wrong: " + what);
    }

    static void Layouts() {
        foreach (Type type in typeof(Dit.Native).GetNestedTypes(BindingFlags.NonPublic)) {
            if (!type.IsValueType || type.IsEnum || type.Name == "Three" || type.Name == "Transport") continue;
            string name = "dit" + Regex.Replace(type.Name, "[A-Z]", m => "_" + m.Value.ToLower());
            Console.WriteLine(name + " " + Marshal.SizeOf(type));
            foreach (FieldInfo field in type.GetFields(BindingFlags.Instance | BindingFlags.Public | BindingFlags.NonPublic))
                if (field.Name != "_zero_begin" && field.Name != "transport")
                    Console.WriteLine(name + "." + field.Name + " " + Marshal.OffsetOf(type, field.Name));
        }
    }

    static void Members() {
        foreach (Type type in typeof(Dit.Context).Assembly.GetExportedTypes().Where(t => t.Namespace == "Dit")) {
            Console.WriteLine(type.Name);
            foreach (MemberInfo member in type.GetMembers()) Console.WriteLine(type.Name + "." + member.Name);
        }
    }

    static void Fails<T>(Action call, string words) where T : Exception {
        try {
            call();
        } catch (T e) {
            Check(e.Message.Contains(words), words + " is not in: " + e.Message);
            return;
        }
        Check(false, "no failure with " + words);
    }

    static void Pictures(string path) {
        var heard = new List<string>();
        var imports = typeof(Dit.Native).GetMethods(BindingFlags.Static | BindingFlags.NonPublic)
            .SelectMany(m => m.GetCustomAttributes(typeof(DllImportAttribute), false)).Cast<DllImportAttribute>().ToList();
        Check(imports.Count > 8 && imports.All(i => i.CallingConvention == CallingConvention.Cdecl), "calling conventions");
        Dit.Model model;
        using (var context = new Dit.Context(log: (level, message) => heard.Add(message), level: 3)) model = context.Load(path);
        // the context has been disposed of, and lives as long as its model
        Check(model.Family == "pixart" && heard.Count > 0 && model.SizeMultiple > 0, "model");
        var what = new Dit.Request { Prompt = "a fox, Füchslein", Width = 32, Height = 32, Steps = 2, Seed = 5, Count = 2 };
        float last = 0;
        byte[][] two = model.Generate(what, (fraction, step, steps) => { last = fraction; return fraction >= 0 && steps == 2; });
        what.Seed = 6;
        what.Count = 1;
        byte[] one = model.Generate(what)[0];
        Check(last == 1 && two.Length == 2 && one.Length == 32 * 32 * 4, "sizes");
        Check(one.SequenceEqual(two[1]) && !one.SequenceEqual(two[0]) && one.Distinct().Count() > 50, "pictures");
        what.Width = 33;
        Fails<Dit.DitException>(() => model.Generate(what), "33");
        what.Width = 32;
        what.Sampler = "nonsense";
        Fails<Dit.DitException>(() => model.Generate(what), "nonsense");
        what.Sampler = null;
        what.Prompt = "a fox\0 in snow";
        Fails<ArgumentException>(() => model.Generate(what), "a fox\\0 in snow");
        what.Prompt = "a fox";
        what.Count = 0;
        Check(model.Generate(what).Length == 1, "count 0");
        what.Count = 1;
        what.Steps = 400; // more than a device makes in the first wait
        Fails<OperationCanceledException>(() => model.Generate(what, (f, s, n) => false), "cancelled");
        var source = new CancellationTokenSource();
        source.Cancel();
        Fails<OperationCanceledException>(() => model.Generate(what, null, source.Token), "cancelled");
        what.Classes = new int[0];
        Fails<ArgumentException>(() => model.Generate(what), "labels");
        model.Dispose();
        what.Classes = null;
        Fails<ObjectDisposedException>(() => model.Generate(what), "");
        More(path);
        string fixtures = path + "/../";
        Names();
        Headers(path, fixtures);
        Loras(path, fixtures + "lora_pixart_sigma/lora");
        Jobs(path);
        States(path);
        Sounds(fixtures);
        Frames(path);
        Contexts(path);
        Sources(path, fixtures + "lora_pixart_sigma/lora");
        Given(fixtures);
        using (var context = new Dit.Context()) Fails<Dit.DitException>(() => context.Load("no/such/model"), "no/such/model");
        Fails<Dit.DitException>(() => new Dit.Context("no such device"), "no such device");
        new Dit.Context().Load(path); // forgotten: collected in any order
        GC.Collect();
        GC.WaitForPendingFinalizers();
        Console.WriteLine(checks + " checks");
    }

    // Exceptions of functions that C calls; start pictures, prompts as bytes, LoRAs, caches and clips.
    static void More(string path) {
        Fails<InvalidTimeZoneException>(() => new Dit.Context(log: (l, m) => { throw new InvalidTimeZoneException("mine"); }, level: 3), "mine");
        byte[] cache;
        using (var context = new Dit.Context()) {
            Fails<InvalidTimeZoneException>(() => context.Load(path, 0, (p, d, t) => { throw new InvalidTimeZoneException("mine"); }), "mine");
            Fails<OperationCanceledException>(() => context.Load(path, 0, (p, d, t) => false), "cancelled");
            Fails<Dit.DitException>(() => context.Load(path, 0, null, new Dit.Lora { Path = "no/such/lora" }), "no/such/lora");
            var parts = new List<string>();
            var lora = new Dit.Lora { Path = path + "/../lora_pixart_sigma/lora" };
            using (var model = context.Load(path, 0, (p, d, t) => { parts.Add(p); return d <= t; }, lora)) {
                Check(parts.Contains("transformer"), "progress");
                var what = new Dit.Request { Prompt = "a fox", Width = 32, Height = 32, Steps = 4, Seed = 5 };
                byte[] fox = model.Generate(what)[0];
                what.LoraWeights = new float[] { 0 };
                Check(!model.Generate(what)[0].SequenceEqual(fox), "a LoRA is off");
                what.LoraWeights = null;
                what.Prompt = "an owl";
                byte[] owl = model.Generate(what)[0];
                what.Encoded = model.Encode("a fox");
                what.NegativeEncoded = model.Encode("");
                GC.Collect();
                Check(model.Generate(what)[0].SequenceEqual(fox), "encoded prompts");
                what.Encoded = what.NegativeEncoded = null;
                what.Width = what.Height = 0;
                what.Init = new Dit.Pixels(32, 32, fox);
                what.Strength = 0.5f;
                byte[] both = model.Generate(what)[0];
                Check(both.Length == fox.Length && !both.SequenceEqual(fox) && !both.SequenceEqual(owl), "a start picture");
                what.Strength = 1;
                byte[] whole = model.Generate(what)[0];
                what.Mask = new Dit.Pixels(32, 32, new byte[32 * 32 * 4]);
                Check(!model.Generate(what)[0].SequenceEqual(whole), "a mask");
                Fails<ArgumentException>(() => new Dit.Pixels(32, 33, fox), "4096 bytes are no 32 x 33");
                var seen = new List<Dit.Pixels>();
                var shown = new Dit.Request { Prompt = "a fox", Width = 32, Height = 32, Steps = 400, Preview = (p, step) => seen.Add(p), PreviewInterval = 4 };
                model.Generate(shown); // more steps than a device makes in the first wait
                Check(seen.Count > 0 && seen.All(p => p.Width == 32 && p.Rgba.Length == 32 * 32 * 4), "previews");
                shown.Preview = (p, step) => { throw new InvalidTimeZoneException("mine"); };
                Fails<InvalidTimeZoneException>(() => model.Generate(shown), "mine");
                what.Cache = "teacup";
                Fails<Dit.DitException>(() => model.Generate(what), "teacup");
            }
            cache = context.SaveCache();
            using (var clips = context.Load(path + "/../pipe_ltx")) {
                var what = new Dit.Request { Prompt = "a fox", Width = 64, Height = 64, Steps = 1 };
                byte[][] frames = clips.GenerateClip(what, 9);
                Check(clips.DefaultFrames > 9 && frames.Length == 9 && frames.All(f => f.Length == 64 * 64 * 4), "frames");
                Check(!frames[0].SequenceEqual(frames[8]), "frames differ");
                Check(clips.Generate(what).Length == 1, "a clip's model paints one picture");
                Fails<Dit.DitException>(() => clips.GenerateClip(what, 10), "frame_count 10");
            }
        }
        using (var context = new Dit.Context(cache: cache)) Check(cache.Length > 64 && context.SaveCache().Length >= 64, "a cache");
    }

    static Dit.Request Fox(string prompt = "a fox", ulong seed = 5) {
        return new Dit.Request { Prompt = prompt, Width = 32, Height = 32, Steps = 4, Seed = seed };
    }

    static byte[] Paint(Dit.Model model, Action<Dit.Request> change = null) {
        Dit.Request what = Fox();
        if (change != null) change(what);
        return model.Generate(what)[0];
    }

    static bool Same(Array a, Array b) {
        return a.Length == b.Length && a.Cast<object>().SequenceEqual(b.Cast<object>());
    }

    static void Names() {
        string schedule;
        Check(Dit.Library.FindSampler("DPM++ 2M Karras", out schedule) == "dpm++2m" && schedule == "karras", "a sampler with a schedule");
        Check(Dit.Library.FindSampler("Euler", out schedule) == "euler" && schedule == null, "a sampler");
        Check(Dit.Library.FindSchedule("automatic") == null && Dit.Library.Schedules().Contains(Dit.Library.FindSchedule("sgm_uniform")), "a schedule");
        Fails<Dit.DitException>(() => Dit.Library.FindSampler("no such thing", out schedule), "no such thing");
        Fails<Dit.DitException>(() => Dit.Library.FindSchedule("no such thing"), "no such thing");
        Check(Dit.Library.Samplers().Contains("euler") && Dit.Library.TypeName(6) == "Q8_0" && Dit.Library.ResultText(-8) == "input/output error", "names");
        Dit.Device[] devices = Dit.Library.Devices();
        Check(Dit.Library.Version.Minor > 0 && devices[0].Uuid.Length == 32 && devices[0].Memory > 0 && devices[0].ApiVersion >> 22 == 1, "devices");
        using (var context = new Dit.Context(new Dit.ContextOptions { Devices = "0,0" })) {
            Check(context.Devices.Length == 2 && context.Device.Name == devices[0].Name, "devices of a context");
            Check(context.Devices.All(d => d.Uuid == devices[0].Uuid && d.Rung == context.Device.Rung), "the same twice");
        }
    }

    static void Headers(string path, string fixtures) {
        using (var context = new Dit.Context())
        using (var loaded = context.Load(path))
        using (var model = Dit.Model.Describe(path)) {
            Dit.WeightInfo[] rows = model.Weights();
            Check(rows.Length > 2 && rows.Sum(r => (long)r.DeviceBytes) == (long)model.WeightBytes && model.WeightBytes == loaded.WeightBytes, "weights");
            Check(rows.Any(r => r.Role == Dit.Role.Vae && r.Type != "stored" && r.Parameters > 0) && model.Has(Dit.Role.Vae) && !model.Lacks(Dit.Role.Vae), "roles");
            Check(model.Has(Dit.Role.T5) && !model.Lacks(Dit.Role.T5) && !model.Lacks(Dit.Role.Tokenizers) && !model.Has(Dit.Role.Sound), "roles that stand for others");
            using (var bare = Dit.Model.Describe(fixtures + "pipe_flux")) Check(!bare.Has(Dit.Role.T5) && bare.Lacks(Dit.Role.T5) && bare.Lacks(Dit.Role.Tokenizers), "parts that are missing");
            using (var other = Dit.Model.Describe(fixtures + "pipe_ltx2")) Check(!other.Has(Dit.Role.T5) && !other.Lacks(Dit.Role.T5), "another encoder");
            Dit.MemoryNeed small = model.Memory(Fox()), large = loaded.Memory(new Dit.Request { Width = 128, Height = 128 });
            Check(small.Weights == large.Weights && 0 < small.Activations && small.Activations < large.Activations && small.Split == "cfg1", "memory");
            Dit.Plan plan = model.Inspect(Fox());
            Check(plan.Ops[3].Number == 3 && plan.Ops.Any(o => o.Kind == "product" && o.Shape.Length == 3 && o.Runs == 4) && plan.Tensors.Any(t => t.Type == "F32"), "a plan");
            Check(model.Edits == false && model.Distilled == null && model.Variant == "sigma" && model.LatentFactor > 1, "properties");
            Fails<InvalidOperationException>(() => model.Generate(Fox()), "headers");
            Fails<InvalidOperationException>(() => model.Encode("a fox"), "headers");
            Fails<Dit.DitException>(() => model.AddLora(new Dit.Lora { Path = fixtures + "lora_pixart_sigma/lora" }), "dry run");
        }
        using (var classes = Dit.Model.Describe(fixtures + "pipe_dit")) Check(classes.Class("3") == 3 && classes.Class("no such thing") == -1 && classes.ClassCount > 3, "classes");
        Fails<Dit.DitException>(() => Dit.Model.Describe("no/such/model"), "no/such/model");
        Directory.CreateDirectory("edits-cs/transformer");
        foreach (string folder in Directory.GetDirectories(fixtures + "pipe_qwenimage")) {
            Directory.CreateDirectory("edits-cs/" + Path.GetFileName(folder));
            foreach (string file in Directory.GetFiles(folder)) File.Copy(file, "edits-cs/" + Path.GetFileName(folder) + "/" + Path.GetFileName(file), true);
        }
        File.WriteAllText("edits-cs/model_index.json", "{\"_class_name\": \"QwenImageEditPipeline\"}");
        using (var edits = Dit.Model.Describe("edits-cs")) {
            uint width = 640, height = 480;
            Check(edits.Edits == true && edits.EditedSize(ref width, ref height) && width > height && height > 480, "the size of an edited picture");
        }
    }

    // A LoRA that is added to a loaded model draws what one does that was loaded with it; without it all is as before.
    static void Loras(string path, string lora) {
        using (var context = new Dit.Context())
        using (var plain = context.Load(path))
        using (var one = context.Load(path, new Dit.LoadOptions { Loras = new[] { new Dit.Lora { Path = lora, Weight = 0.5f } } })) {
            byte[] bare = Paint(plain), wanted = Paint(one);
            Check(plain.AddLora(new Dit.Lora { Path = lora, Weight = 0.5f }) == 0 && !Same(bare, wanted) && Same(Paint(plain), wanted), "a LoRA is added");
            Dit.LoraInfo told = plain.Loras[0];
            Check(told.Weight == 0.5f && told.Modules > 0 && !told.Merged && told.Bytes > 0 && told.Rank > 0, "it is told");
            plain.SetLoraWeight(0, 0.25f);
            Check(Same(Paint(plain), Paint(one, w => w.LoraWeights = new[] { 0.25f })) && plain.Loras[0].Weight == 0.25f, "its strength");
            plain.RemoveLora(0);
            Check(Same(Paint(plain), bare) && Same(Paint(plain, w => w.LoraWeights = new[] { 0.5f }), wanted), "it is removed");
            Fails<ArgumentException>(() => plain.RemoveLora(1), "LoRA 1");
            Fails<Dit.DitException>(() => plain.AddLora(new Dit.Lora { Path = "no/such/lora" }), "no/such/lora");
            using (var merged = context.Load(path, new Dit.LoadOptions { Loras = new[] { new Dit.Lora { Path = lora, Merge = true } } })) {
                Check(merged.Loras[0].Merged && !Same(Paint(merged), bare), "merged");
                Fails<ArgumentException>(() => merged.RemoveLora(0), "merged");
            }
            var threads = Enumerable.Range(0, 3).Select(i => new Thread(() => Paint(one))).ToList();
            threads.ForEach(t => t.Start());
            for (uint i = 1; i < 4; i++) Check(one.AddLora(new Dit.Lora { Path = lora, Weight = 0.1f }) == i, "beside threads that paint");
            threads.ForEach(t => t.Join());
        }
    }

    // A job in pieces, and again: the bytes of Generate.
    static void Jobs(string path) {
        byte[] fox;
        using (var context = new Dit.Context())
        using (var model = context.Load(path)) {
            fox = Paint(model);
            byte[] owl = Paint(model, w => w.Prompt = "an owl");
            Dit.Request what = Fox();
            what.Previews = true;
            what.PreviewKind = Dit.PreviewKind.Proj;
            using (Dit.Job job = model.StartJob(what)) {
                Check(job.Status.Stage == Dit.Stage.Queued && job.Preview() == null && job.Output() == null, "a job has not begun");
                Fails<Dit.DitException>(() => job.Picture(), "not finished");
                job.WarmUp();
                int steps = 0, previews = 0;
                for (; !job.Step(2000); steps++)
                    if (job.Preview() != null) previews++;
                Check(steps > 3 && previews > 0 && job.Status.Stage == Dit.Stage.Done && Same(job.Picture(), fox), "a job in pieces");
                Check(job.Output().Width == 32 && job.Output().Image != 0 && job.Counters.Dispatches > 100 && job.Overlap == 0, "its output");
                what.Prompt = "an owl";
                job.Restart(what);
                Check(job.Wait() && Same(job.Picture(), owl), "a restart");
                what.Width = 64;
                Fails<Dit.DitException>(() => job.Restart(what), "width");
                Check(Same(job.Picture(), owl), "a restart that is refused");
                what.Width = 32;
                what.Prompt = "a fox";
                job.Restart(what);
                job.Step();
                job.Cancel();
                Fails<OperationCanceledException>(() => job.Wait(), "cancelled");
                job.Restart(what);
                Check(!job.Wait(0) && job.Wait() && Same(job.Pictures()[0], fox), "again");
                var floats = (float[])job.Floats().Data;
                Check(floats.Length == 32 * 32 * 3 && Enumerable.Range(0, floats.Length).All(i => Math.Abs(floats[i] * 255 - fox[i / 3 * 4 + i % 3]) < 1 ||
                    fox[i / 3 * 4 + i % 3] % 255 == 0), "floats");
                Check(job.Latent().Shape.SequenceEqual(new ulong[] { model.LatentChannels, 32 / model.LatentFactor, 32 / model.LatentFactor }), "a latent");
            }
            what = Fox();
            what.Target = new Dit.Target { ExportHandle = 1 };
            Dit.Job given = model.StartJob(what);
            given.Wait();
            Dit.JobExport export = given.Export();
            Check(export.Width == 32 && export.Size >= 32 * 32 * 4 && File.Exists("/proc/self/fd/" + export.Handle), "an export");
            new Microsoft.Win32.SafeHandles.SafeFileHandle((IntPtr)export.Handle, true).Dispose();
            given.Retire();
            Fails<ObjectDisposedException>(() => given.Wait(), "");
            using (Dit.PromptEncoding encoding = model.StartEncoding("a fox")) {
                byte[] blob;
                while ((blob = encoding.Step(1000)) == null) Thread.Sleep(1);
                Check(Same(blob, model.Encode("a fox")) && Same(Paint(model, w => w.Encoded = blob), fox), "a prompt that is encoded in pieces");
                byte[] half = Dit.Library.Mix(blob, model.Encode("an owl"), 0.5f), mixed = Paint(model, w => w.Encoded = half);
                Check(!Same(mixed, fox) && !Same(mixed, owl), "a prompt between two");
            }
            Check(Same(Paint(model, w => w.Encoded = model.Encode("a (fox:1.3)", true)), Paint(model, w => { w.Prompt = "a (fox:1.3)"; w.PromptWeights = true; })), "weights of words");
            var noise = new Dit.Tensor("noise", new ulong[] { 1, 4, 32 / model.LatentFactor, 32 / model.LatentFactor },
                Enumerable.Range(0, (int)(4 * 32 * 32 / model.LatentFactor / model.LatentFactor)).Select(i => i % 2 - 0.5f).ToArray());
            Check(Same(Paint(model, w => w.Inputs = new[] { noise }), Paint(model, w => { w.Inputs = new[] { noise }; w.Seed = 6; })), "noise that is given");
            Fails<ArgumentException>(() => new Dit.Tensor("noise", new ulong[] { 3 }, new float[2]), "noise has 8 bytes");
            Check(!Same(Paint(model, w => w.Guidance = 3), Paint(model, w => { w.Guidance = 3; w.Guided = new Dit.Guided { Rescale = 0.7f }; })), "guidance");
            Check(!Same(Paint(model, w => w.Rng = Dit.Rng.Philox), fox) && Same(Paint(model, w => w.Rng = Dit.Rng.TorchCpu), fox), "noise of another kind");
        }
        using (var context = new Dit.Context("0,0"))
        using (var model = context.Load(path)) {
            Dit.Request what = Fox();
            what.Split = "cfg2";
            using (Dit.Job job = model.StartJob(what))
                Check(job.Wait() && Same(job.Picture(), fox) && job.Shares.Length == 2 && job.Shares[1].Part == 0.5f && job.Shares[1].Work.Contains("branch"), "a split");
        }
    }

    // The step that a state is of, which its fifth word says.
    static int StepOf(byte[] state) { return BitConverter.ToInt32(state, 16); }

    // A job that goes on where another one ended, and pictures that begin with latents of a job.
    static void States(string path) {
        using (var context = new Dit.Context())
        using (var model = context.Load(path)) {
            byte[] wanted = Paint(model), kept;
            Dit.Tensor latent;
            Dit.Request what = Fox();
            what.KeepState = true;
            using (Dit.Job job = model.StartJob(what)) {
                Check(job.SaveState() == null, "no step has begun");
                while (!job.Wait(0) && job.Status.Step < 2) {}
                job.Cancel();
                Fails<OperationCanceledException>(() => job.Wait(), "cancelled");
                kept = job.SaveState();
                job.Restart(what);
                Check(job.SaveState() == null && job.Wait() && Same(job.Picture(), wanted), "again");
                latent = job.Latent();
            }
            what.KeepState = false;
            what.State = kept;
            Check(StepOf(kept) >= 2 && StepOf(kept) <= 4 && Same(model.Generate(what)[0], wanted), "a picture goes on");
            using (Dit.Job job = model.StartJob(what)) {
                Check(job.Status.Step == StepOf(kept) && Same(job.SaveState(), kept), "a job with a state keeps it, too");
                Check(job.Wait() && Same(job.Picture(), wanted) && StepOf(job.SaveState()) == 4, "its end");
                Fails<Dit.DitException>(() => job.Restart(what), "state is for dit_job_create");
                what.State = null;
                Fails<Dit.DitException>(() => job.Restart(what), "keep_state");
                what.KeepState = true;
                job.Restart(what);
                Check(job.Status.Step == 0 && job.Wait() && Same(job.Picture(), wanted), "a restart begins with step 1");
            }
            using (Dit.Job job = model.StartJob(Fox())) Fails<Dit.DitException>(() => job.SaveState(), "keep_state");
            Fails<Dit.DitException>(() => Paint(model, w => { w.State = kept; w.Steps = 3; }), "of 4 steps");
            Fails<Dit.DitException>(() => Paint(model, w => w.State = kept.Take(kept.Length - 1).ToArray()), "state");
            Fails<Dit.DitException>(() => Paint(model, w => w.State = new byte[0]), "state");
            Func<float, ulong, byte[]> owl = (strength, seed) => Paint(model, w => {
                w.Prompt = "an owl";
                w.Inputs = strength == 0 ? null : new[] { new Dit.Tensor("image_latents", latent.Shape, latent.Data) };
                w.Strength = strength;
                w.Seed = seed;
            });
            Check(!Same(owl(0.5f, 5), owl(0, 5)) && !Same(owl(0.5f, 5), owl(0.25f, 5)) && !Same(owl(0.5f, 5), wanted), "latents of a job");
            what = Fox("an owl");
            what.Count = 2;
            what.Strength = 0.5f;
            what.Inputs = new[] { new Dit.Tensor("image_latents", new ulong[] { 1 }.Concat(latent.Shape).ToArray(), latent.Data) };
            byte[][] both = model.Generate(what);
            Check(Same(both[0], owl(0.5f, 5)) && Same(both[1], owl(0.5f, 6)), "one for both");
            Fails<Dit.DitException>(() => Paint(model, w => { w.Inputs = what.Inputs; w.Init = Plain(32, 32, 9); }), "init_image");
        }
    }

    // The sound of clips, and its guidance.
    static void Sounds(string fixtures) {
        string path = fixtures + "pipe_ltx2";
        using (var context = new Dit.Context())
        using (var model = context.Load(path)) {
            Check(model.SoundRate == 48000 && model.SoundChannels == 2 && !model.LacksSound && model.Has(Dit.Role.Sound), "a model with sound");
            Check(model.DefaultSoundGuidance == 7 && model.NegativePrompt.StartsWith("blurry") && !model.NegativeAlways && model.DefaultLowGuidance == 0, "its guidance");
            Check(model.Weights().Any(row => row.Role == Dit.Role.Sound && row.Parameters > 0), "its weights");
            Func<Dit.Model, Dit.Guided, uint, Dit.Job> job = (from, guided, count) => {
                var what = new Dit.Request { Prompt = "a fox", Width = 64, Height = 64, Steps = 2, Seed = 5, Guided = guided, Guidance = guided == null ? 0 : 3, Count = count };
                Dit.Job made = from.StartJob(what, 9);
                Check(made.Status.SoundSamples == 0, "no sound yet");
                Fails<Dit.DitException>(() => made.Sound(), "not finished");
                made.Wait();
                return made;
            };
            Func<Dit.Guided, float[]> sound = guided => {
                using (Dit.Job made = job(model, guided, 1)) return (float[])made.Sound().Data;
            };
            float[] one;
            byte[] last;
            using (Dit.Job made = job(model, null, 2)) {
                Dit.Tensor first = made.Sound(), second = made.Sound(1);
                Check(made.Status.SoundSamples == 990 && first.Shape.SequenceEqual(new ulong[] { 990, 2 }) && !Same(first.Data, second.Data), "a sound for each clip");
                one = (float[])first.Data;
                last = made.Picture(0, 8);
            }
            Check(one.All(value => value >= -1 && value <= 1) && one.Distinct().Count() > 1000 && Same(one, sound(null)), "samples");
            var told = new[] { new Dit.Guided(), new Dit.Guided { SoundScale = 5 }, new Dit.Guided { Perturb = 1, SkipBlocks = 2 }, new Dit.Guided { Isolate = 3 } };
            Check(told.Select(guided => string.Join(" ", sound(guided))).Concat(new[] { string.Join(" ", one) }).Distinct().Count() == 5, "each has a sound of its own");
            Check(Same(sound(new Dit.Guided { SoundScale = 7 }), one), "the sound's guidance");
            var quiet = new Dit.Request { Prompt = "a fox", Width = 64, Height = 64, Steps = 2, Seed = 5, NoSound = true };
            using (Dit.Job made = model.StartJob(quiet, 9)) {
                made.Wait();
                Check(made.Status.SoundSamples == 0 && Same(made.Picture(0, 8), last), "without sound");
                Fails<Dit.DitException>(() => made.Sound(), "there is no sound");
            }
            quiet.NoSound = false;
            Check(Same(model.GenerateClip(quiet, 9)[8], last), "frames alone");
            Directory.CreateDirectory("mute-cs");
            foreach (string file in Directory.GetFiles(path)) File.Copy(file, "mute-cs/" + Path.GetFileName(file), true);
            foreach (string folder in Directory.GetDirectories(path)) {
                if (folder.EndsWith("audio_vae") || folder.EndsWith("vocoder")) continue;
                Directory.CreateDirectory("mute-cs/" + Path.GetFileName(folder));
                foreach (string file in Directory.GetFiles(folder)) File.Copy(file, "mute-cs/" + Path.GetFileName(folder) + "/" + Path.GetFileName(file), true);
            }
            using (var mute = Dit.Model.Describe("mute-cs")) Check(mute.LacksSound && mute.SoundRate == 0 && !mute.Has(Dit.Role.Sound), "a model that lacks its sound");
            var parts = new[] { Part(Dit.Role.Sound, path + "/audio_vae"), Part(Dit.Role.Sound, path + "/vocoder") };
            using (var whole = context.Load("mute-cs", new Dit.LoadOptions { Components = parts }))
            using (Dit.Job made = job(whole, null, 1)) Check(Same(made.Sound().Data, one), "the sound's parts are files of their own");
        }
        using (var model = Dit.Model.Describe(fixtures + "pipe_kandinsky_t2v"))
            Check(model.NegativeAlways && model.NegativePrompt != null && model.DefaultSoundGuidance == 0 && !model.LacksSound && model.SoundRate == 0, "a negative prompt");
    }

    static void Contexts(string path) {
        var written = new MemoryStream();
        using (var context = new Dit.Context(new Dit.ContextOptions { Trace = true, Threads = 4, Tune = true, MaxSliceUs = 2000 }))
        using (var model = context.Load(path)) {
            byte[] plain;
            using (context.TraceRange("mine")) {
                context.TraceMark("here");
                plain = Paint(model);
            }
            context.TraceWrite(written);
            string told = System.Text.Encoding.UTF8.GetString(written.ToArray());
            Check(told.Contains("\"mine\"") && told.Contains("\"here\"") && told.Contains("traceEvents"), "a trace");
            written.Close();
            Fails<ObjectDisposedException>(() => context.TraceWrite(written), "");
            var types = new[] { new Dit.TypeRule { Tensors = "transformer.*blocks.*", Type = "I8_ROW" } };
            using (var rows = context.Load(path, new Dit.LoadOptions { Types = types })) Check(rows.WeightBytes < model.WeightBytes && !Same(Paint(rows), plain), "types");
            using (var streamed = context.Load(path, new Dit.LoadOptions { WeightBudget = 128000, KeepStreamed = true }))
                Check(streamed.StreamedBytes > 0 && Same(Paint(streamed), plain), "streamed");
            using (var bare = context.Load(path, new Dit.LoadOptions { Parts = new[] { Dit.Role.Transformer, Dit.Role.Vae } }))
                Check(bare.Lacks(Dit.Role.TextEncoder) && Same(Paint(bare, w => { w.Encoded = model.Encode("a fox"); w.NegativeEncoded = model.Encode(""); }), plain), "parts");
            var apart = new[] { Part(Dit.Role.Transformer, path + "/transformer"), Part(Dit.Role.Vae, path + "/vae"), Part(Dit.Role.TextEncoder, path + "/text_encoder"),
                                Part(Dit.Role.Tokenizer, path + "/tokenizer"), Part(Dit.Role.Scheduler, path + "/scheduler") };
            using (var parts = context.Load(null, new Dit.LoadOptions { Components = apart })) Check(Same(Paint(parts), plain), "files of their own");
            Fails<ArgumentException>(() => context.Load(path, new Dit.LoadOptions { Types = new[] { new Dit.TypeRule { Tensors = "*", Type = "INT8" } } }), "INT8");
        }
        var heard = new List<string>();
        using (var context = new Dit.Context(new Dit.ContextOptions { Progress = (what, done, total) => { heard.Add(what); return true; } })) {
            using (var model = context.Load(path)) {
                Check(heard.Contains("transformer"), "the context's hook hears of a load");
                heard.Clear();
                Paint(model);
                Check(heard.Count > 0, "and of a job");
            }
        }
    }

    // Models, parts and LoRAs that are no paths: a folder behind a function, files in memory, streamed too.
    static void Sources(string path, string lora) {
        var opened = new List<string>();
        Func<string, Stream> member = name => {
            opened.Add(name);
            return File.OpenRead(path + "/" + name);
        };
        using (var context = new Dit.Context())
        using (var model = context.Load(path)) {
            byte[] wanted = Paint(model);
            foreach (ulong budget in new ulong[] { 0, 128000 })
                using (var other = context.Load(null, new Dit.LoadOptions { Open = member, WeightBudget = budget }))
                    Check(opened.Contains("model_index.json") && Same(Paint(other), wanted), "a folder behind a function");
            Func<string, Stream> vae = name => File.Exists(path + "/vae/" + name) ? File.OpenRead(path + "/vae/" + name) : null;
            using (var other = context.Load(path, new Dit.LoadOptions { Components = new[] { new Dit.Component { Role = Dit.Role.Vae, Open = vae } } }))
                Check(Same(Paint(other), wanted), "a part behind a function");
            byte[] file = File.ReadAllBytes(Directory.GetFiles(lora, "*.safetensors")[0]);
            using (var other = context.Load(path, new Dit.LoadOptions { Loras = new[] { new Dit.Lora { Data = new MemoryStream(file) } } })) {
                model.AddLora(new Dit.Lora { Data = new MemoryStream(file) });
                GC.Collect();
                Check(!Same(Paint(model), wanted) && Same(Paint(model), Paint(other)), "a LoRA in memory");
            }
            Fails<Dit.DitException>(() => context.Load(null, new Dit.LoadOptions { Data = new MemoryStream(new byte[1000]) }), "");
            Fails<InvalidTimeZoneException>(() => context.Load(null, new Dit.LoadOptions { Open = name => { throw new InvalidTimeZoneException("mine"); } }), "mine");
            Fails<Dit.DitException>(() => context.Load(null, new Dit.LoadOptions { Open = name => null }), "");
            string bundled = path + "/../../../models/emoji-q8_0.gguf";
            var what = new Dit.Request { Prompt = "fox", Steps = 1 };
            using (var one = context.Load(bundled))
            using (var other = context.Load(null, new Dit.LoadOptions { Data = new MemoryStream(File.ReadAllBytes(bundled)), WeightBudget = 10000000 }))
                Check(other.StreamedBytes > 0 && Same(one.Generate(what)[0], other.Generate(what)[0]), "a model in memory");
        }
    }

    static Dit.Component Part(Dit.Role role, string path) { return new Dit.Component { Role = role, Path = path }; }

    static Dit.Pixels Plain(uint width, uint height, byte red) {
        return new Dit.Pixels(width, height, Enumerable.Range(0, (int)(width * height * 4)).Select(i => i % 4 == 0 ? red : (byte)(i % 4 * 60)).ToArray());
    }

    // References, nets that follow a picture, clips that follow a clip, and masks.
    static void Given(string fixtures) {
        Dit.Pixels grey = Plain(64, 64, 90);
        Func<Dit.Request> small = () => new Dit.Request { Prompt = "a fox", Width = 64, Height = 64, Steps = 1, Seed = 5 };
        using (var context = new Dit.Context()) {
            using (var model = context.Load(fixtures + "pipe_flux2_klein")) {
                Dit.Request one = small(), two = small();
                one.References = new[] { grey };
                two.References = new[] { grey, Plain(96, 64, 9) };
                byte[][] made = { model.Generate(small())[0], model.Generate(one)[0], model.Generate(two)[0] };
                Check(!Same(made[0], made[1]) && !Same(made[1], made[2]), "references");
            }
            var nets = new[] { Part(Dit.Role.ControlNet, fixtures + "flux_controlnet/controlnet"), Part(Dit.Role.ControlNet, fixtures + "flux_controlnet/controlnet") };
            using (var model = context.Load(fixtures + "pipe_flux", new Dit.LoadOptions { Components = nets })) {
                Func<Dit.ControlNet[], byte[]> made = used => {
                    Dit.Request what = small();
                    what.ControlNets = used;
                    what.Inputs = new[] { new Dit.Tensor("prompt_embeds", new ulong[] { 1, 512, 48 }, new float[512 * 48]),
                                          new Dit.Tensor("pooled_prompt_embeds", new ulong[] { 1, 32 }, new float[32]) };
                    return model.Generate(what)[0];
                };
                byte[] plain = made(null), one = made(new[] { new Dit.ControlNet { Picture = grey } });
                Check(model.ControlNetCount == 2 && !Same(plain, one) && Same(one, made(new[] { new Dit.ControlNet { Picture = grey, Number = 1 } })) &&
                      !Same(one, made(new[] { new Dit.ControlNet { Picture = grey, Weight = 0.5f } })), "control nets");
            }
            string experts = fixtures + "pipe_wan22_i2v_a14b/";
            var parts = new[] { Part(Dit.Role.Transformer, fixtures + "wan_vace/transformer"), Part(Dit.Role.T5, experts + "text_encoder"),
                                Part(Dit.Role.Tokenizers, experts + "tokenizer"), Part(Dit.Role.Vae, experts + "vae") };
            using (var model = context.Load(null, new Dit.LoadOptions { Components = parts })) {
                Dit.Pixels[] clip = Enumerable.Range(0, 5).Select(i => Plain(48, 32, (byte)(i * 40))).ToArray();
                Dit.Pixels black = new Dit.Pixels(48, 32, new byte[48 * 32 * 4]);
                Func<Action<Dit.Request>, byte[]> last = change => {
                    var what = new Dit.Request { Prompt = "a fox", Width = 48, Height = 32, Steps = 1 };
                    change(what);
                    return model.GenerateClip(what, 5)[4];
                };
                byte[] followed = last(w => w.Control = clip), held = last(w => { w.Control = clip; w.Mask = black; });
                Check(model.TakesControl && !Same(followed, last(w => {})) && !Same(followed, held), "a clip that follows a clip");
                Check(Same(held, last(w => { w.Control = clip; w.Masks = Enumerable.Repeat(black, 5).ToArray(); })), "masks of frames");
                Check(!Same(followed, last(w => { w.Control = clip; w.References = new[] { grey }; })), "references of a clip");
                Check(!Same(followed, last(w => { w.Control = clip; w.ControlStrength = 0.5f; })), "a strength");
                Fails<Dit.DitException>(() => last(w => w.Control = clip.Skip(1).ToArray()), "control_image has 4 frames");
                using (Dit.Job job = model.StartJob(new Dit.Request { Width = 48, Height = 32, Steps = 1, References = new[] { grey }, FloatFrames = true }, 5)) {
                    job.Wait();
                    Check(job.Latent().Shape.SequenceEqual(new ulong[] { model.LatentChannels, 3, 32 / model.LatentFactor, 48 / model.LatentFactor }), "a clip's latent");
                    Check(job.Floats(0, 4).Data.Length == 48 * 32 * 3 && job.Pictures().Length == 5, "a clip's floats");
                }
            }
        }
    }

    // A Vulkan device of the test's own, and a command buffer for each frame.
    sealed class Engine {
        const string Library = "libvulkan.so.1";
        [DllImport(Library)] static extern IntPtr vkGetInstanceProcAddr(IntPtr instance, string name);
        [DllImport(Library)] static extern int vkCreateInstance(IntPtr info, IntPtr none, out IntPtr made);
        [DllImport(Library)] static extern int vkEnumeratePhysicalDevices(IntPtr instance, ref uint count, out IntPtr gpu);
        [DllImport(Library)] static extern int vkCreateDevice(IntPtr gpu, IntPtr info, IntPtr none, out IntPtr made);
        [DllImport(Library)] static extern void vkGetDeviceQueue(IntPtr device, uint family, uint index, out IntPtr queue);
        [DllImport(Library)] static extern int vkCreateCommandPool(IntPtr device, IntPtr info, IntPtr none, out ulong made);
        [DllImport(Library)] static extern int vkAllocateCommandBuffers(IntPtr device, IntPtr info, out IntPtr made);
        [DllImport(Library)] static extern int vkBeginCommandBuffer(IntPtr commands, IntPtr info);
        [DllImport(Library)] static extern int vkEndCommandBuffer(IntPtr commands);
        [DllImport(Library)] static extern int vkQueueSubmit(IntPtr queue, uint count, IntPtr info, ulong fence);
        [DllImport(Library)] static extern int vkQueueWaitIdle(IntPtr queue);
        [DllImport(Library)] static extern void vkDestroyCommandPool(IntPtr device, ulong pool, IntPtr none);
        [DllImport(Library)] static extern void vkDestroyDevice(IntPtr device, IntPtr none);
        [DllImport(Library)] static extern void vkDestroyInstance(IntPtr instance, IntPtr none);
        [DllImport("libdl.so.2")] static extern IntPtr dlopen(string name, int how);
        [DllImport("libdl.so.2")] static extern IntPtr dlsym(IntPtr library, string name);
        public readonly IntPtr Procedure, Instance, Gpu, Device, Queue;
        public readonly Dit.DeviceCreateInfo Info;
        readonly IntPtr commands;
        readonly ulong pool;

        public Engine() {
            uint count = 1;
            IntPtr none = IntPtr.Zero, application = Packed(0u, none, none, 0u, none, 0u, 1u << 22 | 2u << 12);
            Procedure = dlsym(dlopen(Library, 2), "vkGetInstanceProcAddr");
            Check(vkCreateInstance(Packed(1u, none, 0u, application, 0u, none, 0u, none), none, out Instance) == 0, "an instance");
            vkEnumeratePhysicalDevices(Instance, ref count, out Gpu);
            IntPtr queue = Packed(2u, none, 0u, 0u, 1u, Packed(0x3f800000u));
            Info = Dit.Library.ExtendDevice(Procedure, Instance, Gpu, Packed(3u, none, 0u, 1u, queue, 0u, none, 0u, none, none));
            Check(vkCreateDevice(Gpu, Info.Address, none, out Device) == 0, "a device");
            vkGetDeviceQueue(Device, 0, 0, out Queue);
            Check(vkCreateCommandPool(Device, Packed(39u, none, 2u, 0u), none, out pool) == 0, "a pool");
            vkAllocateCommandBuffers(Device, Packed(40u, none, (IntPtr)(long)pool, 0u, 1u), out commands);
        }

        // A structure of numbers and pointers, as C lays it out.
        static IntPtr Packed(params object[] members) {
            IntPtr memory = Marshal.AllocHGlobal(members.Length * 8 + 8);
            int at = 0;
            foreach (object member in members) {
                int size = member is uint ? 4 : IntPtr.Size;
                at = (at + size - 1) / size * size;
                if (member is uint) Marshal.WriteInt32(memory, at, unchecked((int)(uint)member));
                else Marshal.WriteIntPtr(memory, at, (IntPtr)member);
                at += size;
            }
            return memory;
        }

        // Returns what record(commands) does; its commands have finished then.
        public bool Frame(Func<IntPtr, bool> record, bool submit = true) {
            IntPtr none = IntPtr.Zero;
            vkBeginCommandBuffer(commands, Packed(42u, none, 0u, none));
            bool done = record(commands);
            vkEndCommandBuffer(commands);
            if (submit && (vkQueueSubmit(Queue, 1, Packed(4u, none, 0u, none, none, 1u, Packed(commands), 0u, none), 0) != 0 || vkQueueWaitIdle(Queue) != 0))
                throw new Exception("a frame is not submitted");
            return done;
        }

        public void Destroy() {
            vkDestroyCommandPool(Device, pool, IntPtr.Zero);
            vkDestroyDevice(Device, IntPtr.Zero);
            vkDestroyInstance(Instance, IntPtr.Zero);
        }
    }

    // A job in the command buffers of a device that is not dit's: the bytes of Generate.
    static void Frames(string path) {
        byte[] wanted;
        using (var context = new Dit.Context())
        using (var model = context.Load(path)) wanted = Paint(model);
        var engine = new Engine();
        int locked = 0, unlocked = 0;
        var own = new Dit.Vulkan { GetInstanceProcAddr = engine.Procedure, Instance = engine.Instance, PhysicalDevice = engine.Gpu, Device = engine.Device,
                                   ApiVersion = 1u << 22 | 2u << 12, DeviceInfo = engine.Info.Address, Queue = engine.Queue,
                                   Lock = () => locked++, Unlock = () => unlocked++ };
        using (var context = new Dit.Context(new Dit.ContextOptions { Vulkan = new[] { own }, FramesInFlight = 2, MaxSliceUs = 2000 }))
        using (var model = context.Load(path)) {
            using (Dit.Job job = model.StartJob(Fox())) {
                int count = 0;
                for (; !engine.Frame(commands => job.Record(commands, 1000)); count++) job.RecordTook(0);
                while (job.Status.Result == 1) engine.Frame(commands => job.Record(commands));
                Check(count > 3 && Same(job.Picture(), wanted) && job.Output().Final && job.Output().Timeline == 0, "frames");
                job.Restart(Fox());
                engine.Frame(commands => job.Record(commands, 1000), false);
                job.Unrecord();
                Fails<Dit.DitException>(() => job.Unrecord(), "argument");
                while (job.Status.Result == 1) engine.Frame(commands => job.Record(commands, 100000));
                Check(Same(job.Picture(), wanted), "a frame that was dropped is made again");
            }
            Dit.Job retired = model.StartJob(Fox());
            engine.Frame(commands => retired.Record(commands, 1000));
            retired.Retire();
            Check(Same(Paint(model), wanted) && locked > 4 && locked == unlocked, "locks");
        }
        engine.Destroy();
    }

    static int Main(string[] args) {
        if (args[0] == "layouts") Layouts();
        else if (args[0] == "names") Members();
        else Pictures(args[0]);
        return 0;
    }
}
