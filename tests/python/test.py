"""The test of dit.py's objects, from an installed prefix: test.py MODEL, a folder of tests/fixtures."""
import array
import ctypes
import io
import json
import os
import struct
import sys
import threading
import wave

import dit

FIXTURES = os.path.dirname(sys.argv[1])
SIZE = dict(width=32, height=32, steps=4, seed=5)
checks = 0


def check(good, what=""):
    global checks
    checks += 1
    assert good, what


def fails(kind, call, *words):
    try:
        call()
    except kind as error:
        check(all(word in str(error) for word in words), error)
    else:
        raise AssertionError((kind, words))


def paint(model, prompt="a fox", **more):
    return model.generate(prompt, **dict(SIZE, **more))[0].rgba


def names():
    check(dit.version().count(".") == 2 and dit.TYPES["Q8_0"] == 6 and len(dit.TYPES) > 20)
    check(dit.find_sampler("DPM++ 2M Karras") == ("dpm++2m", "karras") and dit.find_sampler("Euler")[1] is None)
    check(dit.find_schedule("Automatic") is None and dit.find_schedule("sgm_uniform") in dit.schedules())
    fails(dit.DitError, lambda: dit.find_sampler("no such thing"), "no such thing")
    fails(dit.DitError, lambda: dit.find_schedule("no such thing"), "no such thing")
    device = dit.devices()[0]
    check(device.api_version >> 22 == 1 and len(device.uuid) == 32 and device.vendor > 0)


def headers(path):
    with dit.describe(path) as model, dit.Context() as context, context.load(path) as loaded:
        check(model.info.family == b"pixart" and model.weights() == loaded.weights())
        rows = model.weights()
        check({row.role for row in rows} == {"transformer", "text_encoder", "vae"}, rows)
        check(all(row.type in dit.TYPES and 0 < row.parameters <= row.file_bytes for row in rows), rows)
        check(sum(row.device_bytes for row in rows) == model.memory(**SIZE).weights == model.info.weight_bytes)
        ops, tensors = model.inspect(**SIZE)
        check({"encode", "step", "decode"} <= {op.segment for op in ops} and ops[3].number == 3)
        products = [op for op in ops if op.kind == "product"]
        check(products and all(len(op.shape) == 3 and op.flops > 0 for op in products), products[:1])
        check(any(op.runs == 4 for op in ops) and any(tensor.type == "F32" and tensor.bytes >= tensor.rows * tensor.columns * 4 for tensor in tensors))
        check(model.distilled is None and model.edits is False and model.edited_size(100, 100) is None)
        fails(dit.DitError, lambda: model.generate("a fox"), "headers")
        fails(dit.DitError, lambda: model.encode("a fox"), "headers")
        fails(dit.DitError, lambda: model.encoding("a fox"), "headers")
        fails(dit.DitError, lambda: model.add_lora(FIXTURES + "/lora_pixart_sigma/lora"), "dry run")
        fails(TypeError, lambda: dit.describe(path, weight_budgets=1), "weight_budgets")
    os.makedirs("edits", exist_ok=True)
    for name in os.listdir(FIXTURES + "/pipe_qwenimage"):
        if name != "model_index.json" and not os.path.islink("edits/" + name):
            os.symlink(os.path.abspath(f"{FIXTURES}/pipe_qwenimage/{name}"), "edits/" + name)
    with open("edits/model_index.json", "w") as index:
        json.dump({"_class_name": "QwenImageEditPipeline"}, index)
    with dit.describe("edits") as model:
        width, height = model.edited_size(640, 480)
        check(model.edits is True and width > height > 480 and width % model.info.size_multiple == 0, (width, height))


def loras(path):
    """A LoRA that is added to a loaded model draws what one does that was loaded with it; without it all is as before."""
    lora = FIXTURES + "/lora_pixart_sigma/lora"
    with dit.Context() as context, context.load(path) as plain, context.load(path, loras=[(lora, 0.5)]) as with_one:
        bare, wanted = paint(plain), paint(with_one)
        job = plain.job("a fox", **SIZE)
        job.step()
        bytes_before = plain.info.weight_bytes
        check(plain.add_lora(lora, 0.5) == 0 and plain.info.lora_count == 1 and plain.info.weight_bytes > bytes_before)
        check(job.wait() and job.picture().rgba == bare, "a job that was there has no LoRA")
        job.restart()
        check(job.wait() and job.picture().rgba == wanted, "and has it when it is restarted")
        job.close()
        check(bare != wanted == paint(plain))
        told = plain.loras[0]
        check(told.weight == 0.5 and told.modules > 0 and not told.merged and told.bytes > 0 and told == with_one.loras[0], told)
        plain.set_lora_weight(0, 0.25)
        check(paint(plain) == paint(with_one, lora_weights=[0.25]) != wanted and plain.loras[0].weight == 0.25)
        plain.remove_lora(0)
        check(paint(plain) == bare and paint(plain, lora_weights=[0.5]) == wanted)
        check(plain.add_lora(lora) == 1 and paint(plain) == paint(with_one, lora_weights=[1]) and len(plain.loras) == 2)
        fails(ValueError, lambda: plain.remove_lora(2), "LoRA 2", "2")
        fails(ValueError, lambda: plain.add_lora(lora, 0), "weight")
        fails(dit.DitError, lambda: plain.add_lora("no/such/lora"), "no/such/lora")
        check(len(plain.loras) == 2 and paint(plain) == paint(with_one, lora_weights=[1]), "a failure leaves nothing behind")
        with context.load(path, loras=[dit.LoraFile(lora, 0.5, merge=True)]) as merged:
            check(merged.loras[0].merged and merged.loras[0].bytes == 0 and paint(merged) != bare)
            fails(ValueError, lambda: merged.remove_lora(0), "merged")
        # a hook of a call about the model can read it but not change it, and threads can do both
        heard, loaded = [], []

        def hear(what, done, total):
            for model in loaded:
                try:
                    heard.append(f"{model.frames()} frames, and the LoRA {model.add_lora(lora)}")
                except dit.DitError as error:
                    heard.append(str(error))
        with dit.Context(progress=hear) as second, second.load(path) as model:
            loaded.append(model)
            paint(model)
            check(heard and all("hook" in told for told in heard), "the context's hook hears of a job that is made, and cannot change the model")
            threads = [threading.Thread(target=paint, args=(model,)) for _ in range(3)]
            for thread in threads:
                thread.start()
            check([model.add_lora(lora, 0.1) for _ in range(3)] == [0, 1, 2])
            for thread in threads:
                thread.join()
            check(model.info.lora_count == 3 == len(model.loras))


def jobs(path):
    """A job in pieces, and again: the bytes of generate()."""
    with dit.Context() as context, context.load(path) as model:
        fox, owl = paint(model), paint(model, "an owl")
        with model.job("a fox", **SIZE, preview_interval=1, preview_kind="proj") as job:
            check(dit.STAGES[job.status.stage] == "queued" and not job.preview() and job.output() is None)
            fails(dit.DitError, lambda: job.picture(), "not finished")
            job.warm_up()
            steps, previews = 0, 0
            while not job.step(2000):
                steps, previews = steps + 1, previews + bool(job.preview())
            check(steps > 3 and previews > 0 and dit.STAGES[job.status.stage] == "done" and job.status.fraction == 1)
            check(job.picture().rgba == fox and job.output().width == 32 and job.output().image)
            counters = job.counters
            check(counters.dispatches > 100 and counters.pipelines > 0 and counters.allocations > 0)
            for seed, prompt, wanted in ((5, "an owl", owl), (5, "a fox", fox)):
                job.restart(prompt=prompt, seed=seed)
                check(job.wait() and job.picture().rgba == wanted)
            check(job.counters.allocations == counters.allocations)
            fails(dit.DitError, lambda: job.restart(width=64), "width")
            check(job.picture().rgba == fox, "a restart that is refused leaves the job as it was")
            floats, latent = job.floats(), job.latent()
            check(floats.shape == (32, 32, 3) and latent.shape == (model.info.latent_channels, 32 // model.info.latent_factor, 32 // model.info.latent_factor))
            values = array.array("f", floats.data)
            pixels = [min(max(round(value * 255), 0), 255) for value in values]
            check(all(abs(pixels[i] - fox[i // 3 * 4 + i % 3]) <= 1 for i in range(len(pixels))), "floats are the picture's")
            check(len(latent.data) == 4 * latent.shape[0] * latent.shape[1] * latent.shape[2])
            job.restart(seed=1)
            job.step()
            job.cancel()
            fails(dit.DitError, lambda: job.wait(), "cancelled")
            job.restart(seed=5)
            check(not job.wait(0) and job.wait(60) and job.picture().rgba == fox)
        fails(dit.DitError, lambda: job.status, "closed")
        job = model.job("a fox", **SIZE, target=dit.Target(export_handle=1))
        job.wait()
        export = job.export()
        check(export.width == 32 and export.size >= 32 * 32 * 4 and os.fstat(export.handle))
        os.close(export.handle)
        job.retire()
        fails(dit.DitError, lambda: job.wait(), "closed")
        # a prompt that is encoded beside a job, noise of the caller's, guidance by its members
        with model.encoding("a fox") as encoding, model.job("an owl", **SIZE) as job:
            blob = None
            while blob is None:
                blob = encoding.step(1000)
                job.step(1000)
            check(blob == model.encode("a fox") == encoding.step() and paint(model, blob) == fox)
        noise = dit.Tensor((1, *latent.shape), struct.pack("<%df" % (len(latent.data) // 4), *([0.5, -0.5] * (len(latent.data) // 8))))
        check(paint(model, inputs={"noise": noise}) == paint(model, inputs={"noise": noise}, seed=6) != fox)
        fails(ValueError, lambda: paint(model, inputs={"noise": noise._replace(data=noise.data[4:])}), "noise", "bytes")
        fails(dit.DitError, lambda: paint(model, inputs={"nose": noise}), "nose")
        check(paint(model, guidance={"scale": 3}) == paint(model, guidance=3) != paint(model, guidance={"scale": 3, "rescale": 0.7}))
        fails(ValueError, lambda: paint(model, guidance={"scales": 3}), "scales", "rescale")
        check(paint(model, rng="philox") != fox == paint(model, rng="torch"))
        fails(ValueError, lambda: paint(model, rng="cuda"), "'cuda'")
    with dit.Context(devices=[0, 0]) as context, context.load(path) as model, model.job("a fox", **SIZE, split="cfg2") as job:
        check(len(context.devices) == 2 and job.wait() and [share.device for share in job.shares] == [0, 1])
        check(all(share.part == 0.5 and "branch" in share.work and share.step_bytes > 0 for share in job.shares[1:]), job.shares)
        check(job.picture().rgba == fox)


def clips():
    with dit.Context() as context, context.load(FIXTURES + "/pipe_ltx") as model:
        with model.job("a fox", frames=9, width=64, height=64, steps=1, float_frames=True) as job:
            job.wait()
            latent = job.latent()
            check(len(job.pictures()) == 9 and job.floats(0, 8).shape == (64, 64, 3) and job.overlap == 0)
            check(len(latent.shape) == 4 and latent.shape[1] == 2 and len(latent.data) == 4 * latent.shape[0] * 2 * latent.shape[2] * latent.shape[3], latent.shape)
    with dit.Context() as context, context.load(FIXTURES + "/pipe_opensora12") as model:
        what = dict(width=64, height=64, steps=1, frames=model.frames(34), loop_count=2)
        with model.job("a fox", **what) as job:
            job.wait()
            first = job.pictures()
            job.restart(loop=1)
            job.wait()
            check(0 < job.overlap < len(first) and job.picture(0, len(first) - 1).rgba != first[-1].rgba)


def states(path):
    """A job that goes on where another one ended, and pictures that begin with latents of a job."""
    with dit.Context() as context, context.load(path) as model:
        wanted, kept = paint(model), []
        with model.job("a fox", **SIZE, keep_state=True) as job:
            check(job.save_state() is None, "no step has begun")
            while not job.wait(0) and job.status.step < 2:
                pass
            job.cancel()
            fails(dit.DitError, lambda: job.wait(), "cancelled")
            kept.append(job.save_state())
            job.restart()
            check(job.save_state() is None and job.wait() and job.picture().rgba == wanted)
            latent = job.latent()
        check(2 <= job_step(kept[0]) <= 4 and paint(model, state=bytearray(kept[0])) == wanted)
        with model.job("a fox", **SIZE, state=kept[0]) as job:
            check(job.status.step == job_step(kept[0]) and job.save_state() == kept[0], "a job with a state keeps it, too")
            job.wait()
            check(job.picture().rgba == wanted and job_step(job.save_state()) == 4)
            job.restart()
            check(job.status.step == 0 and job.wait() and job.picture().rgba == wanted, "a restart begins with step 1")
            fails(dit.DitError, lambda: job.restart(state=kept[0]), "state is for dit_job_create")
            fails(dit.DitError, lambda: job.restart(keep_state=False), "keep_state")
        with model.job("a fox", **SIZE) as job:
            fails(dit.DitError, lambda: job.save_state(), "keep_state")
        fails(dit.DitError, lambda: paint(model, state=kept[0], steps=3), "of 4 steps")
        fails(dit.DitError, lambda: paint(model, state=kept[0][:-1]), "state")
        fails(dit.DitError, lambda: paint(model, state=b""), "state")
        fails(TypeError, lambda: paint(model, state="a state"), "bytes")
        # "image_latents": [C, h, w] as a job gives it, or one for each picture
        owl = paint(model, "an owl", inputs={"image_latents": latent}, strength=0.5)
        check(len({owl, paint(model, "an owl"), paint(model, "an owl", inputs={"image_latents": latent}, strength=0.25), wanted}) == 4)
        grey = latent._replace(data=bytes(len(latent.data)))
        both = dit.Tensor((2, *latent.shape), grey.data + latent.data)
        second = paint(model, "an owl", inputs={"image_latents": latent}, strength=0.5, seed=6)
        with model.job("an owl", **SIZE, count=2, inputs={"image_latents": both}, strength=0.5) as job:
            job.wait()
            check(job.picture(1).rgba == second and job.picture(0).rgba == paint(model, "an owl", inputs={"image_latents": grey}, strength=0.5))
            job.restart(inputs={"image_latents": dit.Tensor((1, *latent.shape), latent.data)})
            check(job.wait() and [made.rgba for made in job.pictures()] == [owl, second], "one for both")
        fails(dit.DitError, lambda: paint(model, inputs={"image_latents": latent}, init=dit.Picture(32, 32, wanted)), "image_latents", "init_image")
        fails(dit.DitError, lambda: paint(model, inputs={"image_latents": latent}, width=64), "image_latents")


def job_step(state):
    """The step that a state is of, which its fifth word says."""
    return struct.unpack_from("<5I", state)[4]


def sounds():
    """The sound of clips, and its guidance."""
    path, what = FIXTURES + "/pipe_ltx2", dict(frames=9, width=64, height=64, steps=2, seed=5)
    with dit.Context() as context, context.load(path) as model:
        check(model.info.sound_rate == 48000 and model.info.sound_channels == 2 and not model.info.lacks_sound)
        check(model.info.default_sound_guidance == 7 and model.info.negative_prompt.startswith(b"blurry") and not model.info.negative_always)
        check({"sound", "vae"} <= {row.role for row in model.weights()})

        def made(**more):
            with model.job("a fox", **dict(what, **more)) as job:
                check(job.status.sound_samples == 0)
                fails(dit.DitError, lambda: job.sound(), "not finished")
                job.wait()
                sounds = [job.sound(i) for i in range(more.get("count", 1))]
                check(all(sound.shape == (job.status.sound_samples, 2) == (990, 2) and sound.type == "F32" for sound in sounds))
                return [sound.data for sound in sounds], [picture.rgba for picture in job.pictures()]

        (one,), pictures = made()
        values = array.array("f", one)
        check(len(values) == 1980 and all(-1 <= value <= 1 for value in values) and len(set(values)) > 1000 and values[::2] != values[1::2])
        clip = model.clip("a fox", **what)
        check([picture.rgba for picture in clip] == pictures and clip.sound.data == one and clip.sound.shape == (990, 2) and clip.sound_rate == 48000, "a clip has its sound")
        clip.save_sound("fox.wav")
        with wave.open("fox.wav") as file:
            check(file.getparams()[:4] == (2, 2, 48000, 990) and array.array("h", file.readframes(990)).tolist() == [round(32767 * value) for value in values])
        quiet = model.clip("a fox", **what, no_sound=True)
        check([picture.rgba for picture in quiet] == pictures and quiet.sound is None and quiet.sound_rate == 0, "a clip without sound")
        fails(ValueError, lambda: quiet.save_sound("quiet.wav"), "no sound")
        (first, second), _ = made(count=2)
        check(first == one and [second] == made(seed=6)[0] != [one], "a sound for each clip")
        told = [one] + [made(guidance=dict(more, scale=3))[0][0] for more in (
            {}, {"sound_scale": 5}, {"perturb": 1, "skip_blocks": 2}, {"isolate": 3})]
        check(len(set(told)) == 5 and made(guidance={"scale": 3, "sound_scale": 7})[0] == [one], "guidance of the sound")
        with model.job("a fox", **what, no_sound=True) as job:
            job.wait()
            check(job.status.sound_samples == 0 and [picture.rgba for picture in job.pictures()] == pictures, "without sound")
            fails(dit.DitError, lambda: job.sound(), "there is no sound")
        os.makedirs("mute", exist_ok=True)
        for name in os.listdir(path):
            if name not in ("audio_vae", "vocoder") and not os.path.islink("mute/" + name):
                os.symlink(os.path.abspath(f"{path}/{name}"), "mute/" + name)
        with dit.describe("mute") as mute:
            check(mute.info.lacks_sound and mute.info.sound_rate == 0)
        with context.load("mute", components={"sound": [path + "/audio_vae", path + "/vocoder"]}) as model:
            check(model.info.sound_rate == 48000 and made()[0] == [one], "the sound's parts are files of their own")
    with dit.describe(FIXTURES + "/pipe_kandinsky_t2v") as model:
        check(model.info.negative_always and model.info.negative_prompt and not model.info.lacks_sound and model.info.default_sound_guidance == 0)


def traces(path):
    made = io.BytesIO()
    with dit.Context(trace=True) as context:
        with context.load(path) as model, context.trace_range("mine"):
            context.trace_mark("here")
            paint(model)
        context.trace_write(made)
        names = {event.get("name") for event in json.loads(made.getvalue())["traceEvents"]}
        check({"mine", "here"} <= names and len(names) > 10, names)
        context.trace_write("trace.json")
        check(len(json.load(open("trace.json"))["traceEvents"]) < 50, "it is empty now")
        fails(OSError, lambda: context.trace_write("/dev/full"))
    with dit.Context(trace_light=True) as context:
        with context.trace_range("mine"):
            pass
        context.trace_write("trace.json")
        check("mine" in open("trace.json").read())
    with dit.Context() as context:
        context.trace_mark("nothing")
        fails(dit.DitError, lambda: context.trace_write(made), "trace")


def contexts(path):
    marked = []
    with dit.Context(threads=4, marker=marked.append, tune=True, max_slice_us=2000, frames_in_flight=2) as context, context.load(path) as model:
        plain = paint(model)
    with dit.Context() as context, context.load(path, types=[("transformer.*blocks.*", "I8_ROW")]) as rows:
        check(paint(rows) != plain and rows.info.weight_bytes < model.info.weight_bytes)
        fails(ValueError, lambda: context.load(path, types=[("*", "INT8")]), "'INT8'", "I8_ROW")
        with context.load(path, weight_budget=128000, keep_streamed=True) as model:
            check(paint(model) == plain and model.info.streamed_bytes > 0)
        with context.load(path, weights_by_need=True) as model:
            check(paint(model) == plain)
        with context.load(None, components={part: f"{path}/{part}" for part in os.listdir(path) if part in dit.ROLES}) as model:
            check(paint(model) == plain, "parts that are files of their own")


def sources(path):
    """Models, parts and LoRAs that are no paths: a folder behind a function, files in memory, streamed too."""
    lora, opened = FIXTURES + "/lora_pixart_sigma/lora", []

    def member(name):
        opened.append(name)
        return open(os.path.join(path, name), "rb")

    def memory(path):
        with open(path, "rb") as file:
            return io.BytesIO(file.read())

    with dit.Context() as context, context.load(path) as model:
        wanted = paint(model)
        for more in ({}, {"weight_budget": 128000}, {"weights_by_need": True}):
            del opened[:]
            with context.load(member, **more) as other:
                check("model_index.json" in opened and len(opened) > 5 and paint(other) == wanted, more)
        names = [name for name in os.listdir(lora) if name.endswith("safetensors")]
        file = f"{lora}/{names[0]}"
        with context.load(path, loras=[(lora, 0.5)]) as one, context.load(path, loras=[(lambda name: open(f"{lora}/{name}", "rb"), 0.5)]) as other:
            check(paint(one) == paint(other) != wanted, "a LoRA behind a function")
        with context.load(member, loras=[memory(file)]) as other:  # without the configuration beside it
            check(paint(other) != wanted and model.add_lora(memory(file)) == 0 and paint(model) == paint(other), "a LoRA in memory")
            model.remove_lora(0)
        check(dit.describe(member).weights() == model.weights())
        with context.load(member, components={"vae": lambda name: open(f"{path}/vae/{name}", "rb")}) as other:
            check(paint(other) == wanted, "a part behind a function")
        fails(dit.DitError, lambda: context.load(io.BytesIO(b"no model")))

        class Mine(Exception):
            pass

        def broken(name):
            raise Mine("mine")

        class Broken(io.BytesIO):
            def read(self, size=-1):
                raise Mine("mine")
        fails(Mine, lambda: context.load(broken), "mine")
        fails(Mine, lambda: context.load(Broken(b"x" * 1000)), "mine")
        fails(dit.DitError, lambda: context.load(lambda name: {}[name]))
    with dit.Context() as context, context.load(memory(os.path.dirname(FIXTURES) + "/../models/emoji-q8_0.gguf"), weight_budget=10000000) as model:
        check(model.info.streamed_bytes > 0)
        wanted = model.generate("fox", steps=1, seed=5)[0].rgba
        with context.load(os.path.dirname(FIXTURES) + "/../models/emoji-q8_0.gguf") as other:
            check(other.generate("fox", steps=1, seed=5)[0].rgba == wanted)


def wanted_pictures():
    """References, and nets that follow a picture."""
    grey = dit.Picture(64, 64, bytes([99, 150, 20, 255] * 64 * 64))
    with dit.Context() as context, context.load(FIXTURES + "/pipe_flux2_klein") as model:
        what = dict(width=64, height=64, steps=1, seed=5)
        plain = model.generate("a fox", **what)[0].rgba
        one = model.generate("a fox", references=[grey], **what)[0].rgba
        check(plain != one != model.generate("a fox", references=[grey, dit.Picture(96, 64, bytes(96 * 64 * 4))], **what)[0].rgba)
        fails(ValueError, lambda: model.job("a fox", adapters=[dit.Control(grey, weight=0)]), "leave it out")
    def rows(count, columns):
        return dit.Tensor((1, count, columns) if count else (1, columns), struct.pack("<%df" % ((count or 1) * columns), *([0.5, -0.5, 0.25, 0] * ((count or 1) * columns // 4))))
    with dit.Context() as context, context.load(FIXTURES + "/pipe_flux", components={"controlnet": [FIXTURES + "/flux_controlnet/controlnet"] * 2}) as model:
        what.update(inputs={"prompt_embeds": rows(512, 48), "pooled_prompt_embeds": rows(0, 32)})
        check(model.info.control_count == 2)
        plain, one, second, weak = (model.generate(None, adapters=nets, **what)[0].rgba for nets in (
            [], [grey], [dit.Control(grey, number=1)], [dit.Control(grey, weight=0.5)]))
        check(plain != one == second != weak != plain, "control nets")
    parts, experts = dict(transformer=FIXTURES + "/wan_vace/transformer"), FIXTURES + "/pipe_wan22_i2v_a14b/"
    parts.update(t5=experts + "text_encoder", tokenizers=experts + "tokenizer", vae=experts + "vae")
    with dit.Context() as context, context.load(None, components=parts) as model:
        frames = [dit.Picture(48, 32, bytes([i * 40, 150, 20, 255] * 48 * 32)) for i in range(5)]
        white = dit.Picture(48, 32, b"\xff" * 48 * 32 * 4)
        clips = [model.clip("a fox", frames=5, width=48, height=32, steps=1, **more)[4].rgba for more in (
            {}, {"control": frames}, {"control": frames, "mask": white}, {"control": frames, "mask": [white] * 5},
            {"control": frames, "control_strength": 0.5}, {"control": frames, "references": [grey]})]
        check(clips[1] == clips[2] == clips[3] and len(set(clips)) == 4, "clips that follow a clip")
        fails(dit.DitError, lambda: model.clip("a fox", frames=5, width=48, height=32, steps=1, control=frames[1:]), "control_image has 4 frames")
        with model.job("a fox", frames=5, width=48, height=32, steps=1, references=[grey]) as job:
            check(job.wait() and job.latent().shape[:2] == (model.info.latent_channels, 3), "latents of references stand first")


class Engine:
    """A Vulkan device of the test's own, and a command buffer for each frame, by ctypes alone."""

    def __init__(self, kept):
        self.vk, self.kept = ctypes.CDLL("libvulkan.so.1"), kept
        application = self.packed("IPPIPII", 0, 0, 0, 0, 0, 0, 1 << 22 | 2 << 12)
        self.instance = self.made("vkCreateInstance", [], "IPIPIPIP", 1, 0, 0, application, 0, 0, 0, 0)
        count, self.gpu = ctypes.c_uint32(1), ctypes.c_void_p()
        self.vk.vkEnumeratePhysicalDevices(self.instance, ctypes.byref(count), ctypes.byref(self.gpu))
        queue = self.packed("IPIIIP", 2, 0, 0, 0, 1, self.packed("f", 1.0))
        self.procedure = ctypes.cast(self.vk.vkGetInstanceProcAddr, ctypes.c_void_p).value
        info = self.packed("IPIIPIPIPP", 3, 0, 0, 1, queue, 0, 0, 0, 0, 0)
        self.info = dit.device_extend(self.procedure, self.instance.value, self.gpu.value, info)
        self.device, self.queue = ctypes.c_void_p(), ctypes.c_void_p()
        check(self.vk.vkCreateDevice(self.gpu, ctypes.byref(self.info), None, ctypes.byref(self.device)) == 0)
        self.vk.vkGetDeviceQueue(self.device, 0, 0, ctypes.byref(self.queue))
        self.pool = self.made("vkCreateCommandPool", [self.device], "IPII", 39, 0, 2, 0)
        self.commands = ctypes.c_void_p()
        self.vk.vkAllocateCommandBuffers(self.device, ctypes.c_void_p(self.packed("IPPII", 40, 0, self.pool.value, 0, 1)), ctypes.byref(self.commands))

    def packed(self, form, *values):
        self.kept.append(ctypes.create_string_buffer(struct.pack("@" + form, *(0 if value is None else value for value in values))))
        return ctypes.addressof(self.kept[-1])

    def made(self, function, owner, form, *values):
        handle = ctypes.c_void_p()
        check(getattr(self.vk, function)(*owner, ctypes.c_void_p(self.packed(form, *values)), None, ctypes.byref(handle)) == 0)
        return handle

    def frame(self, record, submit=True):
        """Returns what record(command buffer) does; its commands have finished then."""
        self.vk.vkBeginCommandBuffer(self.commands, ctypes.c_void_p(self.packed("IPIP", 42, 0, 0, 0)))
        done = record(self.commands.value)
        self.vk.vkEndCommandBuffer(self.commands)
        if submit:
            buffers = self.packed("P", self.commands.value)
            info = self.packed("IPIPPIPIP", 4, 0, 0, 0, 0, 1, buffers, 0, 0)
            assert self.vk.vkQueueSubmit(self.queue, 1, ctypes.c_void_p(info), None) == 0 and self.vk.vkQueueWaitIdle(self.queue) == 0
        return done

    def destroy(self):
        self.vk.vkDestroyCommandPool(self.device, self.pool, None)
        self.vk.vkDestroyDevice(self.device, None)
        self.vk.vkDestroyInstance(self.instance, None)


def frames(path):
    """A job in the command buffers of a device that is not dit's: the bytes of generate()."""
    with dit.Context() as context, context.load(path) as model:
        wanted = paint(model)
    engine, locked = Engine([]), []
    lock = dit.LOCK(lambda _: locked.append(1))
    own = dit.Vulkan(get_instance_proc_addr=engine.procedure, instance=engine.instance, physical_device=engine.gpu, device=engine.device,
                     api_version=1 << 22 | 2 << 12, device_info=ctypes.addressof(engine.info), queue=engine.queue, queue_family=0,
                     lock_queue=lock, unlock_queue=lock)
    with dit.Context(vulkan=own, frames_in_flight=2, max_slice_us=2000) as context, context.load(path) as model:
        with model.job("a fox", **SIZE) as job:
            count = 0
            while not engine.frame(lambda commands: job.record(commands, 1000)):
                job.record_took(0)
                count += 1
            while job.status.result == dit.WORKING:
                engine.frame(lambda commands: job.record(commands))
            check(count > 3 and job.picture().rgba == wanted and job.output().image and job.output().final and not job.output().timeline)
            job.restart()
            engine.frame(lambda commands: job.record(commands, 1000), submit=False)
            job.unrecord()
            fails(dit.DitError, lambda: job.unrecord(), "argument")
            while job.status.result == dit.WORKING:
                engine.frame(lambda commands: job.record(commands, 100000))
            check(job.picture().rgba == wanted, "a frame that was dropped is made again")
        job = model.job("a fox", **SIZE)
        engine.frame(lambda commands: job.record(commands, 1000))
        job.retire()
        check(paint(model) == wanted and len(locked) > 4 and len(locked) % 2 == 0)
    engine.destroy()


names()
headers(sys.argv[1])
loras(sys.argv[1])
jobs(sys.argv[1])
frames(sys.argv[1])
clips()
states(sys.argv[1])
sounds()
traces(sys.argv[1])
contexts(sys.argv[1])
sources(sys.argv[1])
wanted_pictures()
print(f"{checks} checks")
