extends SceneTree
## One picture, shown in the window's left upper corner: --path PROJECT --script picture.gd -- WANTED.png [SCREEN]
## WANTED is what the command line program makes of the same prompt and seed. SCREEN is the file in which Xvfb keeps its
## screen. Ends with `picture: ...` and exit code 0 when texture, viewport and screen show it to the byte.

const SIDE := 64
var generator := DitGenerator.new()
var shown := TextureRect.new()
var wanted: Image
var screen := ""
var previews := 0
var fractions: Array[float] = []
var frames := 0
var frames_before := 0
var worst_call := 0
var faults: Array[String] = []


func seen() -> bool:
	return DisplayServer.get_name() != "headless"


func expect(good: bool, what: String) -> void:
	if not good:
		faults.append(what)


func _initialize() -> void:
	var args := OS.get_cmdline_user_args()
	wanted = Image.load_from_file(args[0])
	wanted.convert(Image.FORMAT_RGBA8)
	screen = args[1] if args.size() > 1 else ""
	root.position = Vector2i.ZERO
	shown.texture_filter = CanvasItem.TEXTURE_FILTER_NEAREST
	root.add_child(shown)
	root.add_child(generator)
	var model := DitModel.new()
	model.path = "res://models/emoji-q8_0.gguf"
	generator.model = model
	generator.prompt = "red heart, fluent style"
	generator.size = Vector2i(SIDE, SIDE)
	generator.steps = 4
	generator.seed = 7
	generator.preview_interval = 1 if seen() else 0
	generator.started.connect(func(_id): frames_before = frames)
	generator.progress.connect(func(_id, fraction): fractions.append(fraction))
	generator.preview.connect(func(_id, texture): previews += 1; shown.texture = texture)
	generator.failed.connect(func(_id, message): expect(false, message); finish())
	generator.finished.connect(check)
	var begin := Time.get_ticks_usec()
	expect(generator.generate() == 1, "the first request is not 1")
	worst_call = Time.get_ticks_usec() - begin


func _process(_delta: float) -> bool:
	frames += 1
	return false


func same(image: Image, what: String) -> void:
	image.convert(Image.FORMAT_RGBA8)
	var got := image.get_region(Rect2i(0, 0, SIDE, SIDE))
	var wrong := 0
	for y in SIDE:
		for x in SIDE:
			wrong += int(got.get_pixel(x, y) != wanted.get_pixel(x, y))
	expect(wrong == 0, "%s: %d of %d pixels differ" % [what, wrong, SIDE * SIDE])


## The file is an XWD dump: its header, colours, and rows of blue, green, red and nothing.
func read_screen() -> Image:
	var bytes := FileAccess.get_file_as_bytes(screen)
	var word := func(at: int) -> int: return bytes[at] << 24 | bytes[at + 1] << 16 | bytes[at + 2] << 8 | bytes[at + 3]
	var first: int = word.call(0) + 12 * word.call(76)
	var image := Image.create_empty(SIDE, SIDE, false, Image.FORMAT_RGBA8)
	for y in SIDE:
		for x in SIDE:
			var at: int = first + y * word.call(48) + 4 * x
			image.set_pixel(x, y, Color8(bytes[at + 2], bytes[at + 1], bytes[at]))
	return image


func check(id: int, texture: Texture2D) -> void:
	shown.texture = texture
	expect(id == 1 and texture.get_width() == SIDE and texture.get_height() == SIDE, "another request or size")
	expect(previews >= 1 or not seen(), "no preview")
	expect(fractions.size() >= 2 and fractions[-1] == 1.0, "progress ends at %s" % [fractions])
	for i in fractions.size() - 1:
		expect(fractions[i] < fractions[i + 1], "progress goes back")
	same(texture.get_image(), "texture")
	if seen():
		for i in 4:
			await RenderingServer.frame_post_draw
		same(root.get_texture().get_image(), "viewport")
		if screen:
			same(read_screen(), "screen")
	finish()


func finish() -> void:
	for fault in faults:
		printerr("fault: ", fault)
	print("picture: %s, %s; generate() took %d us, %d frames while it worked" % [
		"good" if faults.is_empty() else "bad",
		shown.texture.get_class() if shown.texture else "no texture", worst_call, frames - frames_before])
	quit(0 if faults.is_empty() else 1)
