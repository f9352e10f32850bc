// The test of dit.cs, from an installed prefix: test.exe layouts prints the structures of dit.cs as tests/packages.sh gets
// them from the C compiler; test.exe MODEL makes pictures and mistakes.
using System;
using System.Collections.Generic;
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
            if (!type.IsValueType || type.IsEnum || type.Name == "Two" || type.Name == "Three" || type.Name == "Transport") continue;
            string name = "dit" + Regex.Replace(type.Name, "[A-Z]", m => "_" + m.Value.ToLower());
            Console.WriteLine(name + " " + Marshal.SizeOf(type));
            foreach (FieldInfo field in type.GetFields(BindingFlags.Instance | BindingFlags.Public | BindingFlags.NonPublic))
                if (field.Name != "_zero_begin" && field.Name != "transport")
                    Console.WriteLine(name + "." + field.Name + " " + Marshal.OffsetOf(type, field.Name));
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

    static int Main(string[] args) {
        if (args[0] == "layouts") Layouts();
        else Pictures(args[0]);
        return 0;
    }
}
