//! Files that are not what they seem: named for what they are, and never run into nonsense.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use zinc_engine::gguf::{Gguf, TensorType, Value, Writer};
use zinc_engine::results::{Info, Perplexity};

use crate::support::{Tiny, assert_fails, changed, command, engine, stdout, text, type_offset};

fn write(folder: &Path, name: &str, bytes: &[u8]) -> PathBuf {
    let path = folder.join(name);
    std::fs::write(&path, bytes).unwrap();
    path
}

/// The file with every number of this F32 tensor undefined.
fn undefined(mut file: Vec<u8>, tensor: &str) -> Vec<u8> {
    let gguf = Gguf::parse(&file).unwrap();
    let data = gguf.tensor(tensor).unwrap().data;
    let (at, count) = (data.as_ptr() as usize - file.as_ptr() as usize, data.len());
    for word in file[at..at + count].chunks_exact_mut(4) {
        word.copy_from_slice(&f32::NAN.to_le_bytes());
    }
    file
}

#[test]
fn logits_that_are_not_numbers_are_an_error_and_print_no_text() {
    let folder = tempfile::tempdir().unwrap();
    let broken = undefined(Tiny::default().file(), "output_norm.weight");
    let path = write(folder.path(), "m.gguf", &broken);
    for more in [&[][..], &["--json"], &["--temperature", "1"]] {
        let args = [&["run", "--prompt", "ab", "-n", "3", "--model", text(&path)], more].concat();
        assert_fails(&engine(&args), 1, &["257 of 257 logits", "not numbers", "--via reference"]);
    }
    let args = ["perplexity", "--ctx", "8", "--tokens", "8", "--model", text(&path)];
    let output = engine(&args);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("error:") && said.contains("not a finite number"), "{said}");
    // Programs that compare broken runs get the rest of the result.
    let output = engine(&[&args[..], &["--json"]].concat());
    assert!(String::from_utf8_lossy(&output.stderr).contains("warning:"));
    let result: Perplexity = serde_json::from_str(&stdout(&output)).unwrap();
    assert!(result.perplexity.value.is_nan());
    // The control: the same file with its numbers.
    let path = write(folder.path(), "sound.gguf", &Tiny::default().file());
    stdout(&engine(&["run", "--prompt", "ab", "-n", "3", "--model", text(&path)]));
}

#[test]
fn what_is_no_model_is_named_for_what_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let file = |pairs: &[(&str, Value<'_>)]| {
        let mut writer = Writer::new();
        for (key, value) in pairs {
            writer.put(key, *value);
        }
        writer.tensor("blk.0.attn_q.weight.lora_a", &[4], TensorType::F32);
        let mut out = Vec::new();
        writer.write(&mut out, |_, out| out.write_all(&[0; 16])).unwrap();
        write(folder.path(), "x.gguf", &out)
    };
    let ty = |text| ("general.type", Value::String(text));
    let llama = ("general.architecture", Value::String("llama"));
    for (pairs, words) in [
        (&[ty("adapter"), llama][..], "LoRA adapter"),
        (&[llama, ("adapter.type", Value::String("lora"))], "LoRA adapter"),
        (&[ty("imatrix")], "importance matrix"),
        (&[ty("mmproj"), ("general.architecture", Value::String("clip"))], "projector"),
        (&[ty("other")], "other"),
        (&[("general.architecture", Value::String("mamba"))], "\"mamba\""),
    ] {
        let path = file(pairs);
        for command in [&["info"][..], &["run", "--prompt", "a"]] {
            let args = [command, &["--model", text(&path)]].concat();
            assert_fails(&engine(&args), 1, &["x.gguf", words]);
        }
    }
}

#[test]
fn a_mixture_is_refused_as_one_also_where_its_tensors_have_a_type_of_the_future() {
    let folder = tempfile::tempdir().unwrap();
    let load = |file: &[u8]| {
        let path = write(folder.path(), "m.gguf", file);
        engine(&["info", "--model", text(&path)])
    };
    let mut file = changed(&Tiny::default().file(), &[("llama.expert_count", Some(Value::U32(8)))]);
    let at = type_offset(&file, "blk.0.attn_q.weight", 2);
    file[at..at + 4].copy_from_slice(&4242u32.to_le_bytes());
    assert_fails(&load(&file), 1, &["mixture of experts", "\"llama\"", "llama.expert_count is 8"]);
    let mut file =
        changed(&Tiny::default().file(), &[("general.architecture", Some(Value::String("gpt-oss")))]);
    let at = type_offset(&file, "blk.0.attn_q.weight", 2);
    file[at..at + 4].copy_from_slice(&4242u32.to_le_bytes());
    assert_fails(&load(&file), 1, &["\"gpt-oss\"", "qwen3"]);
    // The control: without another reason it is the type.
    let mut file = Tiny::default().file();
    let at = type_offset(&file, "blk.0.attn_q.weight", 2);
    file[at..at + 4].copy_from_slice(&4242u32.to_le_bytes());
    assert_fails(&load(&file), 1, &["unknown type 4242"]);
}

#[test]
fn a_model_that_is_a_pipe_is_refused_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pipe");
    let made = std::process::Command::new("mkfifo").arg(&path).status().unwrap();
    assert!(made.success());
    let mut child = command(&["info", "--model", text(&path)])
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let started = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if started.elapsed() > Duration::from_secs(60) {
            child.kill().unwrap();
            panic!("it waits for a writer of the pipe");
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_fails(&child.wait_with_output().unwrap(), 3, &["pipe", "not a regular file"]);
}

#[test]
fn names_in_a_file_cannot_command_a_terminal() {
    let folder = tempfile::tempdir().unwrap();
    let bell = "\u{1b}]0;owned\u{7}\u{1b}[2Jname\u{9b}31m";
    let file = changed(&Tiny::default().file(), &[("general.name", Some(Value::String(bell)))]);
    let path = write(folder.path(), "m.gguf", &file);
    let perplexity =
        ["perplexity", "--ctx", "8", "--tokens", "8", "--via", "reference", "--model", text(&path)];
    let run = ["run", "--prompt", "ab", "-n", "1", "--raw", "--model", text(&path)];
    for output in [engine(&["info", "--model", text(&path)]), engine(&perplexity), engine(&run)] {
        let all = [stdout(&output), String::from_utf8_lossy(&output.stderr).into_owned()].concat();
        assert!(all.contains("owned") && all.contains("name"), "{all}");
        // What the run generated is the model's own text and stays as it is.
        let lines = all.lines().filter(|line| line.contains("owned"));
        assert!(
            lines.clone().count() > 0
                && lines.clone().all(|line| !line.contains(['\u{1b}', '\u{7}', '\u{9b}']))
        );
    }
    // In a message, too.
    let bad = changed(&file, &[("general.architecture", Some(Value::String("x\u{1b}[31m")))]);
    let output = engine(&["info", "--model", text(&write(folder.path(), "bad.gguf", &bad))]);
    assert_fails(&output, 1, &["not supported"]);
    assert!(!output.stderr.contains(&0x1b));
    // The control: JSON keeps the name, spelled out.
    let info: Info =
        serde_json::from_str(&stdout(&engine(&["info", "--json", "--model", text(&path)]))).unwrap();
    assert_eq!(info.model.unwrap().model.name, bell);
}

#[test]
fn info_says_what_run_will_refuse() {
    let folder = tempfile::tempdir().unwrap();
    let strings = zinc_engine::gguf::Writer::new().put_strings("tokenizer.ggml.merges", &["a b"]).clone();
    let mut merges = Vec::new();
    strings.write(&mut merges, |_, _| Ok(())).unwrap();
    let merges = Gguf::parse(&merges).unwrap();
    for pre in ["tekken", "deepseek-llm", "dbrx"] {
        let changes = [
            ("tokenizer.ggml.pre", Some(Value::String(pre))),
            ("tokenizer.ggml.merges", merges.get("tokenizer.ggml.merges")),
        ];
        let path = write(folder.path(), "m.gguf", &changed(&Tiny::default().file(), &changes));
        let table = stdout(&engine(&["info", "--model", text(&path)]));
        assert!(table.contains("not for run") && table.contains(pre), "{table}");
        let info: Info =
            serde_json::from_str(&stdout(&engine(&["info", "--json", "--model", text(&path)]))).unwrap();
        assert!(info.model.unwrap().unusable.unwrap().contains(pre));
        assert_fails(&engine(&["run", "--prompt", "a", "--model", text(&path)]), 1, &[pre]);
    }
    let info: Info = serde_json::from_str(&stdout(&engine(&["info", "--json"]))).unwrap();
    let model = info.model.unwrap();
    assert_eq!((model.unusable, model.end_tokens), (None, vec![256]));
}

#[test]
fn a_model_that_names_no_pre_tokenizer_gets_a_warning() {
    let folder = tempfile::tempdir().unwrap();
    let said = |file: &[u8]| {
        let path = write(folder.path(), "m.gguf", file);
        let output = engine(&["tokenize", "--prompt", "a", "--model", text(&path)]);
        stdout(&output);
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let file = Tiny::default().file();
    assert!(!said(&file).contains("warning"));
    let without = said(&changed(&file, &[("tokenizer.ggml.pre", None)]));
    assert!(without.contains("warning:") && without.contains("tokenizer.ggml.pre"), "{without}");
}

/// A file's tensors dealt to parts as `llama-gguf-split` deals them; the paths of the parts.
pub fn split(folder: &Path, file: &[u8], cuts: &[usize]) -> Vec<PathBuf> {
    let gguf = Gguf::parse(file).unwrap();
    let all = gguf.tensors();
    let ends: Vec<usize> = cuts.iter().copied().chain([all.len()]).collect();
    let mut from = 0;
    let mut paths = Vec::new();
    for (number, end) in ends.iter().enumerate() {
        let mut writer = Writer::new();
        for (key, value) in gguf.metadata().filter(|_| number == 0) {
            writer.put(key, value);
        }
        writer.put("split.no", Value::U16(number as u16)).put("split.count", Value::U16(ends.len() as u16));
        writer.put("split.tensors.count", Value::I32(all.len() as i32));
        let part = &all[from..*end];
        for tensor in part {
            writer.tensor(tensor.name, &tensor.dims, tensor.ty);
        }
        let mut out = Vec::new();
        writer.write(&mut out, |index, out| out.write_all(part[index].data)).unwrap();
        paths.push(write(folder, &format!("m-{:05}-of-{:05}.gguf", number + 1, ends.len()), &out));
        from = *end;
    }
    paths
}

#[test]
fn the_parts_of_a_split_model_are_loaded_together_whichever_is_given() {
    let folder = tempfile::tempdir().unwrap();
    let file = Tiny { output: Some(zinc_engine::quant::WeightType::Q8_0), ..Tiny::default() }.file();
    let whole = write(folder.path(), "whole.gguf", &file);
    let digest = |path: &Path| {
        let args = [
            "perplexity",
            "--via",
            "reference",
            "--ctx",
            "8",
            "--tokens",
            "8",
            "--json",
            "--model",
            text(path),
        ];
        let result: Perplexity = serde_json::from_str(&stdout(&engine(&args))).unwrap();
        (result.logits_digest, result.model.parameters)
    };
    let expected = digest(&whole);
    // The output head is the second tensor: the first part alone, with the layers, would run with the wrong one.
    for cuts in [&[0, 3][..], &[1], &[5, 9, 12]] {
        let folder = tempfile::tempdir().unwrap();
        for path in split(folder.path(), &file, cuts) {
            assert_eq!(digest(&path), expected, "{cuts:?} {}", path.display());
        }
    }
    // Written as one file again.
    let parts = split(folder.path(), &file, &[4]);
    let out = folder.path().join("out.gguf");
    stdout(&engine(&["export", "--type", "f32", "--model", text(&parts[0]), text(&out)]));
    stdout(&engine(&["info", "--model", text(&out)]));
}

#[test]
fn a_part_that_is_missing_renamed_or_of_another_model_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let file = Tiny::default().file();
    let parts = split(folder.path(), &file, &[3, 6]);
    let load = |path: &Path| engine(&["info", "--model", text(path)]);
    // The second part of another model of the same shape.
    let second = std::fs::read(&parts[1]).unwrap();
    let other = tempfile::tempdir().unwrap();
    let others = split(other.path(), &file, &[4, 6]);
    std::fs::copy(&others[1], &parts[1]).unwrap();
    assert_fails(&load(&parts[0]), 1, &["m-00001-of-00003.gguf"]);
    // Cut off.
    std::fs::write(&parts[1], &second[..second.len() - 100]).unwrap();
    assert_fails(&load(&parts[0]), 1, &["m-00002-of-00003.gguf", "truncated"]);
    // Two parts in each other's place.
    std::fs::copy(&parts[2], &parts[1]).unwrap();
    assert_fails(&load(&parts[0]), 1, &["m-00002-of-00003.gguf", "part 3 of 3"]);
    std::fs::remove_file(&parts[1]).unwrap();
    assert_fails(&load(&parts[0]), 3, &["m-00002-of-00003.gguf", "part 2 of 3"]);
    let renamed = write(folder.path(), "renamed.gguf", &std::fs::read(&parts[2]).unwrap());
    assert_fails(&load(&renamed), 1, &["part 3 of 3", "-00003-of-00003.gguf", "--merge"]);
    // The control: with its second part again, the model loads.
    std::fs::write(&parts[1], &second).unwrap();
    stdout(&load(&parts[0]));
}

#[test]
fn a_prompt_of_any_bytes_keeps_them_with_and_without_a_template() {
    let folder = tempfile::tempdir().unwrap();
    let tiny = Tiny { chat_template: Some("[{{ messages[0].content | trim }}]"), ..Tiny::default() };
    let path = write(folder.path(), "m.gguf", &tiny.file());
    let prompt = write(folder.path(), "prompt", b" a\xff\xe2\x82b ");
    let tokens = |more: &[&str]| {
        let args = ["run", "--json", "-n", "1", "--prompt-file", text(&prompt), "--model", text(&path)];
        let run: zinc_engine::results::Run =
            serde_json::from_str(&stdout(&engine(&[&args[..], more].concat()))).unwrap();
        run.prompt_tokens.iter().map(|token| *token as u8).collect::<Vec<u8>>()
    };
    assert_eq!(tokens(&[]), b"[a\xff\xe2\x82b]");
    assert_eq!(tokens(&["--raw"]), b" a\xff\xe2\x82b ");
}
