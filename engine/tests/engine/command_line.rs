//! Output, exit status and messages of the commands.

use std::process::Stdio;

use zinc_engine::quant::WeightType;
use zinc_engine::results::{Bench, DeviceKind, Info, Ladder, LadderRung, Ops, Perplexity, Run};

use crate::support::{Tiny, assert_fails, command, engine, stdout, text};

fn json<T: serde::de::DeserializeOwned>(args: &[&str]) -> T {
    let out = stdout(&engine(args));
    assert_eq!(out.lines().count(), 1, "one JSON object on one line: {out}");
    serde_json::from_str(&out).unwrap_or_else(|e| panic!("{e}: {out}"))
}

#[test]
fn perplexity_prints_what_it_measured_and_the_same_digest_twice() {
    let args = ["perplexity", "--ctx", "32", "--tokens", "64", "--json"];
    let first: Perplexity = json(&args);
    assert_eq!((first.schema, first.tokens, first.scored, first.bytes), (1, 64, 30, 30));
    assert!((first.nll.exp() - first.perplexity.value).abs() < 1e-9);
    assert!((first.per_byte - first.perplexity.value).abs() < 1e-9, "a byte-level model: a token is a byte");
    let decode = first.decode.expect("decoded on a device");
    assert_eq!((decode.tokens, decode.submits_per_token), (64, 1));
    assert_eq!(decode.barriers_per_token, decode.dispatches_per_token + 1);
    assert!(decode.tok_s > 0.0 && decode.cpu_us_per_token > 0.0 && decode.gpu_us_per_token.is_none());
    let device = first.device.expect("decoded on a device");
    assert!(!device.name.is_empty() && !device.driver.is_empty());

    let each = [&args[..], &["--record", "each"]].concat();
    let again: Perplexity = json(&each);
    assert_eq!(again.logits_digest, first.logits_digest);
}

#[test]
fn fewer_tokens_than_a_chunk_make_one_short_chunk() {
    let result: Perplexity = json(&["perplexity", "--ctx", "256", "--tokens", "16", "--json"]);
    assert_eq!((result.ctx, result.tokens, result.scored), (16, 16, 7));
}

#[test]
fn run_continues_a_prompt_and_streams_exactly_the_text() {
    let args = ["run", "--prompt", "It was the ", "-n", "12"];
    let result: Run = json(&[&args[..], &["--json"]].concat());
    assert_eq!(result.prompt_tokens.len(), 11);
    assert_eq!((result.tokens.len(), result.stopped.as_str()), (12, "length"));
    assert_eq!(result.decode.tokens, 11 + 11);
    let streamed = stdout(&engine(&args));
    assert_eq!(streamed.strip_suffix('\n'), Some(result.text.as_str()));
}

#[test]
fn a_full_context_ends_a_run_and_an_empty_prompt_begins_a_text() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tiny.gguf");
    std::fs::write(&path, Tiny { context: 8, ..Tiny::default() }.file()).unwrap();
    let result: Run = json(&["run", "--model", text(&path), "--prompt", "abc", "-n", "100", "--json"]);
    assert_eq!((result.stopped.as_str(), result.tokens.len()), ("context-full", 6));
    let result: Run = json(&["run", "--model", text(&path), "-n", "2", "--json"]);
    assert_eq!(result.prompt_tokens, [256]);
    let output = engine(&["run", "--model", text(&path), "--prompt", "nine chars"]);
    assert_fails(&output, 2, &["10 tokens", "8"]);
}

#[test]
fn a_leading_token_is_in_front_where_the_model_wants_one() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tiny.gguf");
    std::fs::write(&path, Tiny { leading_token: true, ..Tiny::default() }.file()).unwrap();
    let result: Run = json(&["run", "--model", text(&path), "--prompt", "a", "-n", "1", "--json"]);
    assert_eq!(result.prompt_tokens, [256, 97]);
}

#[test]
fn bench_times_only_the_steps_at_depth() {
    let result: Bench = json(&["bench", "--depth", "20", "-n", "4", "--reps", "3", "--json"]);
    assert_eq!((result.depth, result.tokens, result.tok_s.n, result.decode.tokens), (20, 4, 3, 12));
    let Bench { tok_s, bytes_per_token, .. } = result;
    assert!(0.0 < tok_s.lo && tok_s.lo <= tok_s.median && tok_s.median <= tok_s.hi, "{tok_s:?}");
    // All of the embedded model but its other embedding rows, which it reads as the output head anyway.
    assert!((2_700_000..3_000_000).contains(&bytes_per_token), "{bytes_per_token}");
    let last: Bench = json(&["bench", "--depth", "1020", "-n", "4", "--reps", "1", "--json"]);
    assert_eq!(last.tokens, 4, "the warm-up is as short as the model's context asks");
    let output = engine(&["bench", "--depth", "1020", "-n", "8"]);
    assert_fails(&output, 2, &["1028", "1024"]);
}

#[test]
fn info_lists_devices_and_the_embedded_model() {
    let info: Info = json(&["info", "--json"]);
    assert!(!info.devices.is_empty(), "no Vulkan device: apt-get install mesa-vulkan-drivers");
    let model = info.model.expect("the embedded model");
    assert_eq!((model.model.source.as_str(), model.model.architecture.as_str()), ("embedded", "llama"));
    assert!(stdout(&engine(&["info"])).contains(&model.model.blake3));
}

#[test]
fn ops_reports_every_case_for_programs() {
    let result: Ops = json(&["ops", "--json"]);
    assert_eq!((result.passed, result.controls_caught), (result.total, result.controls));
    assert_eq!(result.cases.len() as u64, result.total);
}

#[test]
fn an_export_holds_the_same_weights_and_appears_whole() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("f32.gguf");
    stdout(&engine(&["export", "--type", "f32", text(&out)]));
    let names: Vec<_> = std::fs::read_dir(folder.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(names, ["f32.gguf"]);
    let reference = ["perplexity", "--via", "reference", "--ctx", "16", "--tokens", "32", "--json"];
    let embedded: Perplexity = json(&reference);
    let exported: Perplexity = json(&[&reference[..], &["--model", text(&out)]].concat());
    // The reference dequantises to f32 itself, so the same weights give the same bits.
    assert_eq!(exported.logits_digest, embedded.logits_digest);
    assert_ne!(exported.model.blake3, embedded.model.blake3);
    let decoded: Perplexity =
        json(&["perplexity", "--ctx", "16", "--tokens", "32", "--json", "--model", text(&out)]);
    assert!((decoded.nll / embedded.nll - 1.0).abs() < 1e-4);
}

#[test]
fn an_export_that_cannot_be_written_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("missing").join("f32.gguf");
    assert_fails(&engine(&["export", "--type", "f32", text(&out)]), 1, &["cannot write", "missing"]);
    // A folder of that name: the file is complete, and the rename fails.
    let taken = folder.path().join("taken");
    std::fs::create_dir(&taken).unwrap();
    assert_fails(&engine(&["export", "--type", "f32", text(&taken)]), 1, &["cannot write"]);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn an_interrupted_export_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let model = folder.path().join("large.gguf");
    let large =
        Tiny { embedding: 512, feed_forward: 8192, layers: 2, ty: WeightType::Q4_0, ..Tiny::default() };
    std::fs::write(&model, large.file()).unwrap();
    let out = folder.path().join("out");
    std::fs::create_dir(&out).unwrap();
    let target = out.join("f32.gguf");
    let mut child =
        command(&["export", "--type", "f32", "--model", text(&model), text(&target)]).spawn().unwrap();
    let entries = || std::fs::read_dir(&out).unwrap().map(|e| e.unwrap().path()).collect::<Vec<_>>();
    // 100 MB take far longer than the first of them, which is enough for the handler to be there.
    let started = || entries().iter().any(|path| path.metadata().is_ok_and(|m| m.len() > 1 << 20));
    while !started() {
        assert!(child.try_wait().unwrap().is_none(), "the export ended before it could be interrupted");
        std::thread::yield_now();
    }
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert!(entries().is_empty(), "{:?}", entries());
}

#[test]
fn a_missing_model_has_a_status_of_its_own() {
    for command in
        [&["info"][..], &["run", "--prompt", "a"], &["perplexity"], &["export", "--type", "f32", "out"]]
    {
        let args = [command, &["--model", "/no/such/model.gguf"]].concat();
        assert_fails(&engine(&args), 3, &["/no/such/model.gguf"]);
    }
    assert_fails(&engine(&["info", "--model", "/"]), 3, &["not a regular file"]);
}

fn without_drivers(args: &[&str]) -> std::process::Output {
    let folder = tempfile::tempdir().unwrap();
    let empty = folder.path().join("empty.json");
    std::fs::write(&empty, "").unwrap();
    // Older loaders read the second name only.
    command(args).env("VK_DRIVER_FILES", &empty).env("VK_ICD_FILENAMES", &empty).output().unwrap()
}

#[test]
fn without_a_driver_the_package_to_install_is_named() {
    for args in [&["run", "--prompt", "a"][..], &["perplexity"], &["ops"]] {
        assert_fails(&without_drivers(args), 3, &["mesa-vulkan-drivers", "VK_ICD_FILENAMES"]);
    }
    let info: Info = serde_json::from_str(&stdout(&without_drivers(&["info", "--json"]))).unwrap();
    assert!(info.devices.is_empty() && info.vulkan_error.unwrap().contains("mesa-vulkan-drivers"));
    // The reference needs no Vulkan.
    let output = without_drivers(&["perplexity", "--via", "reference", "--ctx", "8", "--tokens", "8"]);
    assert!(output.status.success());
}

#[test]
fn a_device_that_is_not_there_or_of_the_wrong_kind_is_named() {
    let info: Info = json(&["info", "--json"]);
    let first = &info.devices[0].device;
    for asked in ["99", "no such device"] {
        let output = engine(&["perplexity", "--device", asked]);
        assert_fails(&output, 3, &[asked, &first.name]);
    }
    let other = if first.kind == DeviceKind::Cpu { "gpu" } else { "cpu" };
    for command in ["ops", "info"] {
        let output = engine(&[command, "--device", "0", "--require", other]);
        assert_fails(&output, 3, &[&first.name, "required"]);
    }
}

#[test]
fn wrong_usage_has_a_status_of_its_own() {
    let wrong: [(&[&str], &str); 6] = [
        (&["perplexity", "--ctx", "100000"], "context"),
        (&["perplexity", "--ctx", "4"], "at least 5"),
        (&["perplexity", "--ctx", "many"], "--ctx"),
        (&["run", "-n", "0"], "--tokens"),
        (&["run", "--record", "sometimes"], "reuse"),
        (&["perplexity", "--require", "tpu"], "gpu"),
    ];
    for (args, word) in wrong {
        let output = engine(args);
        let message = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {message}");
        assert!(message.contains(word), "{args:?}: {message}");
    }
}

#[test]
fn where_the_resident_kernel_does_not_do_a_model_the_fused_plan_does_and_one_line_says_why() {
    let digest = |args: &[&str]| {
        let output = engine(&[&["perplexity", "--ctx", "16", "--tokens", "16"], args].concat());
        let text = stdout(&output);
        let logits = text.lines().find(|line| line.starts_with("logits")).unwrap().to_owned();
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        (logits, message.lines().filter(|line| line.contains("--fusion persistent")).count())
    };
    // Eight invocations are too few for the embedded model's widths on every device.
    let resident = ["--fusion", "persistent", "--tuning", "resident-threads=8"];
    assert_eq!(digest(&resident), (digest(&["--fusion", "all"]).0, 1));
    assert_eq!(digest(&["--fusion", "all"]).1, 0);
    for strict in ["--no-fallback", "--no-grid-barrier"] {
        let args = [&["perplexity", "--ctx", "16", "--tokens", "16", strict], &resident[..]].concat();
        assert_fails(&engine(&args), 1, &["a width of 192 columns", "--fusion all"]);
    }
}

#[test]
fn a_text_that_is_missing_or_too_short_is_named() {
    assert_fails(&engine(&["perplexity", "--file", "/no/such/text"]), 1, &["/no/such/text"]);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("short.txt");
    std::fs::write(&path, "short\n").unwrap();
    assert_fails(&engine(&["perplexity", "--file", text(&path), "--ctx", "64"]), 1, &["5 tokens", "64"]);
}

#[test]
fn any_bytes_can_be_scored() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bytes");
    std::fs::write(&path, (0..=255).collect::<Vec<u8>>()).unwrap();
    let args = ["perplexity", "--via", "reference", "--file", text(&path), "--ctx", "64", "--json"];
    let result: Perplexity = json(&args);
    assert_eq!((result.tokens, result.bytes), (256, result.scored));
}

#[test]
fn a_reader_that_goes_away_causes_no_panic() {
    let mut child = command(&["run", "--prompt", "a", "-n", "200"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert!(!String::from_utf8_lossy(&output.stderr).contains("panicked"));
    assert_ne!(output.status.code(), Some(101));
}

#[test]
fn help_teaches() {
    let help = stdout(&engine(&["--help"]));
    for word in ["engine info", "--model", "--device", "--require", "--json", "Exit status"] {
        assert!(help.contains(word), "{word} is not in the help");
    }
}

#[test]
fn a_ladder_measures_each_rung_beside_the_first_and_hashes_what_it_computes() {
    let rungs = "naive,each,realloc-op,tracked,all,all-ahead,all-null,all-values,persistent";
    let own = "mine=--fusion all --barriers every";
    // At a depth, which each repetition starts from again.
    let args =
        ["ladder", "--rungs", rungs, "--rung", own, "-n", "3", "--reps", "2", "--depth", "5", "--json"];
    let result: Ladder = json(&args);
    let names: Vec<_> = result.rungs.iter().map(|rung| rung.name.as_str()).collect();
    assert_eq!(names.join(","), format!("{rungs},mine"));
    let of = |name: &str| -> &LadderRung { result.rungs.iter().find(|rung| rung.name == name).unwrap() };
    let naive = of("naive");
    assert_eq!((naive.barriers, naive.submits), (naive.dispatches + 1, 1.0));
    assert_eq!(naive.ratio.map(|ratio| (ratio.lo, ratio.hi, ratio.n)), Some((1.0, 1.0, 2)));
    assert!(naive.tok_s.is_some_and(|rate| rate.lo > 0.0) && naive.cpu_us > 0.0);
    assert!(naive.gpu_us.is_some_and(|us| us > 0.0), "the device's clock");
    for same in ["each", "realloc-op", "tracked"] {
        assert_eq!(of(same).digest, naive.digest, "{same}");
    }
    assert_ne!(of("all").digest, naive.digest, "fused sums are in another order");
    assert_eq!(of("all-ahead").digest, of("all").digest);
    assert_eq!(of("mine").digest, of("all").digest);
    let values = of("all-values");
    assert_eq!(values.digest, of("all").digest);
    assert!(values.barriers < 8 && values.dispatches > of("all").dispatches, "{values:?}");
    assert_eq!(of("realloc-op").submits, naive.barriers as f64);
    assert!(of("tracked").barriers < naive.barriers && of("all").dispatches < naive.dispatches / 3);
    assert!((of("all-ahead").submits - 1.0 / 3.0).abs() < 1e-9);
    assert_eq!((of("all-null").digest.as_ref(), of("each").gpu_us), (None, None));
    let persistent = of("persistent");
    let why = persistent.failed.as_ref().expect("the resident kernel does not do 192 columns");
    assert!(why.contains("persistent") && persistent.tok_s.is_none(), "{why}");

    let shown = stdout(&engine(&["ladder", "--rungs", "tracked,persistent", "-n", "1", "--reps", "1"]));
    for words in
        ["| tracked ", "| persistent ", "--barriers tracked", "persistent: not measured: ", "1 digests"]
    {
        assert!(shown.contains(words), "{words}: {shown}");
    }
    assert_fails(&engine(&["ladder", "--rungs", "steep"]), 2, &["steep", "all-ahead"]);
    assert_fails(&engine(&["ladder", "--rung", "mine=--fusion bogus"]), 2, &["mine", "bogus", "persistent"]);
    assert_fails(&engine(&["ladder", "--rung", "mine"]), 2, &["--rung", "mine"]);
    assert_fails(&engine(&["ladder", "--rung", "mine=--sequences 4"]), 2, &["mine", "one sequence"]);
}
