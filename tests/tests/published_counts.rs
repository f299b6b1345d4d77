//! A published measurement, made again without its hardware: llama.cpp with Qwen3-4B on Honeykrisp.
//!
//! On an M2 Ultra somebody counted, for each decoded token of Qwen3-4B in Q4_0, 547 dispatches, 547 barriers emitted by
//! the driver and 366 asked for by the application. The real driver on a shim is handed the same by the same
//! application, so the counts must come out the same, and they do so only if everything on the way counts right: the
//! layer what is asked, the packet counter what is emitted, the model's shape what is recorded.
//!
//! Applications and drivers move on, so this holds for pinned versions of the packages and is `not-run` with others.

use std::fs;
use std::path::Path;

use zinc_packets_core::report::{Cdm, Report as Packets};
use zinc_report::Counts;
use zinc_tests::oracle::{not_run, oracles};
use zinc_tests::stream::scratch;
use zinc_tests::{Child, Layer, artefacts, gguf, shims};

/// The versions that this was verified with: the application's, and the driver's.
const GGML: &str = "0.27.0-1";
const LLAMA: &str = "1:0.7.0+dfsg-2";
const MESA: &str = "26.1.6-1~bpo13+1";

/// Published, for each token.
const DISPATCHES: f64 = 547.0;
const DRIVER_BARRIERS: f64 = 547.0;
const ASKED: f64 = 366.0;

/// Tokens of the two runs, of which the difference is taken.
const SHORT: u64 = 4;
const LONG: u64 = 20;

/// What the layer and the packet counter saw of a run of so many tokens.
fn run(root: &Path, model: &Path, folder: &Path, tokens: u64) -> (Counts, Cdm) {
    let folder = folder.join(tokens.to_string());
    fs::create_dir(&folder).unwrap();
    let (layer, packets) = (Layer::new(&folder).policy("stock"), folder.join("packets.json"));
    Child::new(artefacts::sweep())
        .args(["on", "honeykrisp-shim", "--root"])
        .arg(root)
        .args([
            "--",
            "llama-bench",
            "-p",
            "0",
            "-r",
            "1",
            "-t",
            "1",
            "-ngl",
            "99",
            "-n",
            &tokens.to_string(),
            "-m",
        ])
        .arg(model)
        .env("HOME", std::env::var_os("HOME").unwrap_or_default())
        .env("MESA_SHADER_CACHE_DIR", folder.join("shaders"))
        .env("ZINC_BARRIER_PACKETS", &packets)
        .envs(&layer.environment())
        .run()
        .succeeded();
    let text = fs::read_to_string(&packets).expect("the packet counter left its report");
    let mut report: Packets = serde_json::from_str(&text).expect("the packet counter's report");
    assert!(report.devices.iter().all(|d| d.unreadable_submits == 0), "{text}");
    assert_eq!(report.devices.len(), 1, "{text}");
    (layer.report().totals, report.devices.remove(0).total.cdm.expect("streams of an Apple GPU"))
}

#[test]
fn llama_cpp_with_the_shape_of_qwen3_4b_gives_the_published_counts_on_honeykrisp() {
    let test = "llama_cpp_with_the_shape_of_qwen3_4b_gives_the_published_counts_on_honeykrisp";
    let Some(oracles) = oracles(test) else { return };
    if !shims::are_here(&artefacts::sweep(), test, &["honeykrisp-shim"]) {
        return;
    }
    let mesa = shims::versions(&artefacts::sweep());
    let ggml = oracles.version("libggml0-backend-vulkan");
    let llama = oracles.version("llama.cpp-tools");
    let pinned = mesa.contains(&format!("trixie-backports mesa-vulkan-drivers {MESA}"));
    if ggml != GGML || llama != LLAMA || !pinned {
        let why = format!(
            "pinned to ggml {GGML}, llama.cpp {LLAMA} and Mesa {MESA}; here are {ggml}, {llama} and {}",
            mesa.join(", ")
        );
        return not_run(test, &why);
    }
    let folder = scratch();
    let model = folder.path().join("qwen3-4b.gguf");
    gguf::qwen3_4b(&model).expect("the folder can be written");
    let (short, short_cdm) = run(oracles.folder(), &model, folder.path(), SHORT);
    let (long, long_cdm) = run(oracles.folder(), &model, folder.path(), LONG);
    let per_token = |long: u64, short: u64| (long - short) as f64 / (LONG - SHORT) as f64;
    let counts = [
        ("dispatches asked", per_token(long.dispatches, short.dispatches), DISPATCHES),
        ("driver launches", per_token(long_cdm.launches, short_cdm.launches), DISPATCHES),
        ("driver barriers", per_token(long_cdm.barriers, short_cdm.barriers), DRIVER_BARRIERS),
        ("barriers asked", per_token(long.barriers_asked, short.barriers_asked), ASKED),
    ];
    for (what, found, published) in counts {
        println!("{what}: {found} a token, published {published}");
    }
    println!("driver links: {} a token", per_token(long_cdm.links, short_cdm.links));
    for (what, found, published) in counts {
        assert!((found / published - 1.0).abs() <= 0.01, "{what}: {found} a token, published {published}");
    }
    // The control: what was published is told apart from another shape's counts by more than the tolerance.
    let per_layer = per_token(long.dispatches, short.dispatches) / 36.0;
    assert!(
        per_layer > 0.01 * DISPATCHES,
        "a layer more or less would go unseen: {per_layer} dispatches each"
    );
}
