extends Node3D

# A sphere and a box over a floor, with a shadow, ambient occlusion and glow. The latter two, and the renderer's lists of
# lights, are compute shaders. Prints a digest of the sixth frame and the colour of its middle, then quits.

var frames := 0

func _ready() -> void:
	var camera := Camera3D.new()
	camera.position = Vector3(0, 0.6, 3)
	add_child(camera)
	var light := DirectionalLight3D.new()
	light.rotation_degrees = Vector3(-50, 30, 0)
	light.shadow_enabled = true
	add_child(light)
	for made in [[SphereMesh.new(), Vector3(-0.3, 0.3, 0), Color.ORANGE], [BoxMesh.new(), Vector3(0.9, 0.3, 0), Color.SKY_BLUE],
			[PlaneMesh.new(), Vector3(0, -0.6, 0), Color.WHITE]]:
		var shape := MeshInstance3D.new()
		var paint := StandardMaterial3D.new()
		paint.albedo_color = made[2]
		shape.mesh = made[0]
		shape.material_override = paint
		shape.position = made[1]
		add_child(shape)
	var surroundings := WorldEnvironment.new()
	surroundings.environment = Environment.new()
	surroundings.environment.background_mode = Environment.BG_COLOR
	surroundings.environment.background_color = Color(0.2, 0.3, 0.4)
	surroundings.environment.ssao_enabled = true
	surroundings.environment.glow_enabled = true
	add_child(surroundings)

func _process(_delta: float) -> void:
	frames += 1
	if frames == 6:
		await RenderingServer.frame_post_draw
		var image := get_viewport().get_texture().get_image()
		var digest := HashingContext.new()
		digest.start(HashingContext.HASH_SHA256)
		digest.update(image.get_data())
		print("picture ", image.get_width(), "x", image.get_height(), " ", digest.finish().hex_encode())
		print("middle ", image.get_pixel(80, 60))
		get_tree().quit()
