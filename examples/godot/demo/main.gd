extends Control
## Type a prompt and press Return: the picture appears, roughly at first, while everything else goes on.

@onready var generator: DitGenerator = $DitGenerator
@onready var picture: TextureRect = $Column/Picture
@onready var bar: ProgressBar = $Column/Bar
@onready var line: Label = $Column/Line


func _ready() -> void:
	generator.started.connect(func(id: int): line.text = "picture %d" % id)
	generator.progress.connect(func(_id: int, fraction: float): bar.value = fraction)
	generator.preview.connect(func(_id: int, texture: Texture2D): picture.texture = texture)
	generator.finished.connect(func(_id: int, texture: Texture2D): picture.texture = texture)
	generator.failed.connect(func(_id: int, message: String): line.text = message)
	$Column/Prompt.text_submitted.connect(make)
	$Column/Buttons/Make.pressed.connect(func(): make($Column/Prompt.text))
	$Column/Buttons/Cancel.pressed.connect(generator.cancel)
	make($Column/Prompt.text)


func make(prompt: String) -> void:
	generator.prompt = prompt
	generator.generate()
	generator.seed += 1


func _process(delta: float) -> void:
	$Spinner.rotation += delta # it turns on while the model works
