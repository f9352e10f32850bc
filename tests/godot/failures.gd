extends SceneTree
## What goes wrong is told in a sentence, and nothing crashes: --path PROJECT --script failures.gd [-- quit]
## Ends with `failures: N passed, N failed`. With quit the program ends while a picture is made.

const MODEL := "res://models/emoji-q8_0.gguf"
var passed := 0
var failed := 0


func check(good: bool, what: String) -> void:
	if good:
		passed += 1
	else:
		failed += 1
		printerr("FAILED: ", what)


func make_model(path := MODEL) -> DitModel:
	var model := DitModel.new()
	model.path = path
	return model


func make_generator(model: DitModel, side := 32) -> DitGenerator:
	var generator := DitGenerator.new()
	generator.model = model
	generator.prompt = "red heart, fluent style"
	generator.size = Vector2i(side, side)
	generator.steps = 2
	root.add_child(generator)
	return generator


## What a request comes to: its message, or "" when it is finished.
func end_of(generator: DitGenerator, id: int) -> String:
	var end := []
	var on_failed := func(which: int, message: String): if which == id: end.append(message)
	var on_finished := func(which: int, _texture: Texture2D): if which == id: end.append("")
	generator.failed.connect(on_failed)
	generator.finished.connect(on_finished)
	while end.is_empty():
		await process_frame
	generator.failed.disconnect(on_failed)
	generator.finished.disconnect(on_finished)
	return end[0]


func until_running(generator: DitGenerator) -> void:
	var running := [false]
	var on_progress := func(_id: int, _fraction: float): running[0] = true
	generator.progress.connect(on_progress)
	while not running[0]:
		await process_frame
	generator.progress.disconnect(on_progress)


func tells(generator: DitGenerator, words: String) -> void:
	var message: String = await end_of(generator, generator.generate())
	check(words in message if words else message == "", "no '%s' in '%s'" % [words, message])


func _initialize() -> void:
	if "quit" in OS.get_cmdline_user_args():
		quit_at_work()
	else:
		all()


func quit_at_work() -> void:
	var generator := make_generator(make_model(), 128)
	generator.steps = 50
	generator.generate()
	generator.generate()
	await until_running(generator)
	print("failures: 1 passed, 0 failed")
	quit()


func all() -> void:
	var model := make_model()
	var generator := make_generator(model)
	# what cannot be
	generator.model = null
	await tells(generator, "no model")
	generator.model = make_model("res://no/such.gguf")
	await tells(generator, "no/such.gguf")
	generator.model = make_model("res://project.godot")
	await tells(generator, "project.godot")
	generator.model = model
	generator.size = Vector2i(33, 32)
	await tells(generator, "33")
	generator.size = Vector2i(-8, 32)
	await tells(generator, "negative")
	generator.size = Vector2i(32, 32)
	await tells(generator, "") # and then it works

	# requests wait for each other, with the properties that they began with
	var order := []
	var on_finished := func(id: int, texture: Texture2D): order.append([id, texture.get_image().get_data()])
	generator.finished.connect(on_finished)
	var ids := []
	for i in 3:
		generator.seed = i % 2
		ids.append(generator.generate())
	while order.size() < 3:
		await process_frame
	generator.finished.disconnect(on_finished)
	check(order.map(func(o): return o[0]) == ids, "requests end in another order: %s" % [ids])
	check(order[0][1] == order[2][1] and order[0][1] != order[1][1], "pictures are not those of their seeds")

	# a model is loaded once: its file may go away
	var other := FileAccess.open("res://other.gguf", FileAccess.WRITE)
	other.store_buffer(FileAccess.get_file_as_bytes(MODEL))
	other.close()
	var shared := make_model("res://other.gguf")
	var first := make_generator(shared)
	check(await end_of(first, first.generate()) == "", "a copy of the model does not work")
	DirAccess.remove_absolute("res://other.gguf")
	var second := make_generator(shared)
	check(await end_of(second, second.generate()) == "", "a second node loads the model again")
	second.model = make_model("res://other.gguf")
	await tells(second, "other.gguf")
	first.queue_free()
	second.queue_free()
	shared = null

	# cancelled while it runs, while it waits, and before anything
	generator.cancel()
	generator.steps = 50
	generator.size = Vector2i(128, 128)
	var running := generator.generate()
	var waiting := generator.generate()
	var messages := {}
	var on_failed := func(id: int, message: String): messages[id] = message
	generator.failed.connect(on_failed)
	await until_running(generator)
	generator.cancel()
	while messages.size() < 2:
		await process_frame
	check(messages[running] == "cancelled" and messages[waiting] == "cancelled", "cancelled: %s" % messages)
	generator.failed.disconnect(on_failed)

	# a handler that asks again and cancels; a node that is freed, with its model, while it works
	var again := [0]
	var on_started := func(_id: int): again[0] += 1; if again[0] < 3: generator.generate(); generator.cancel()
	generator.started.connect(on_started)
	generator.generate()
	for i in 60:
		await process_frame
	generator.started.disconnect(on_started)
	check(again[0] >= 1, "no request began")
	generator.cancel()
	var freed := make_generator(make_model(), 128)
	freed.steps = 50
	freed.generate()
	freed.generate()
	await until_running(freed)
	freed.free()
	generator.steps = 2
	generator.size = Vector2i(32, 32)
	check(await end_of(generator, generator.generate()) == "", "nothing works after a node was freed")
	generator.model.path = "res://no/such.gguf" # the resource is another model from now on
	await tells(generator, "no/such.gguf")

	# the scene changes while its picture is made
	var scene := PackedScene.new()
	var inside := DitGenerator.new()
	inside.model = make_model()
	inside.steps = 50
	scene.pack(inside)
	inside.free()
	change_scene_to_packed(scene)
	await process_frame
	await process_frame
	(current_scene as DitGenerator).generate()
	await until_running(current_scene)
	change_scene_to_packed(scene)
	await process_frame
	await process_frame
	(current_scene as DitGenerator).steps = 1
	check((current_scene as DitGenerator).model.path == MODEL, "the scene has lost its model's path")
	check(await end_of(current_scene, (current_scene as DitGenerator).generate()) == "", "nothing works in the new scene")
	print("failures: %d passed, %d failed" % [passed, failed])
	quit(0 if failed == 0 else 1)
