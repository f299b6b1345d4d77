//! The Debian package holds what it says, in places where the loader, the shells and the programs themselves look.
//!
//! It is made of the programs that were built for the tests, and unpacked, not installed: tests change no machine.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use zinc_tests::artefacts::{self, repository};
use zinc_tests::layer::read_report;
use zinc_tests::stream::scratch;
use zinc_tests::{Child, Stream};

/// The built programs under the names that they are installed by.
fn built(folder: &Path) -> PathBuf {
    let from = folder.join("built");
    fs::create_dir(&from).unwrap();
    for (file, name) in [
        (artefacts::installer(), "zinc-barrier"),
        (artefacts::sweep(), "sweep"),
        (artefacts::engine(), "engine"),
        (artefacts::layer(), "libzinc_barrier.so"),
        (artefacts::packets(), "libzinc_packets.so"),
        (artefacts::start(), "libzinc_start.so"),
    ] {
        symlink(file, from.join(name)).unwrap();
    }
    from
}

fn make(from: &Path, out: &Path) -> Child {
    Child::new(repository().join("layer/package/deb"))
        .arg("--from")
        .arg(from)
        .arg("--out")
        .arg(out)
        .limit(300)
}

#[test]
fn the_package_s_layer_is_inserted_and_its_programs_and_completions_work() {
    let folder = scratch();
    let out = folder.path().join("out");
    let ended = make(&built(folder.path()), &out).run().succeeded();
    let package = PathBuf::from(ended.stdout.trim());
    assert!(package.exists(), "{}", ended.transcript());

    let control = Child::new("dpkg-deb").arg("-f").arg(&package).run().succeeded().stdout;
    for line in
        ["Package: zinc-barrier", &format!("Version: {}", env!("CARGO_PKG_VERSION")), "Depends: libc6 (>= 2."]
    {
        assert!(control.contains(line), "{line}: {control}");
    }
    let root = folder.path().join("root");
    Child::new("dpkg-deb").arg("-x").arg(&package).arg(&root).run().succeeded();

    for (program, name) in
        [("zinc-barrier", "zinc-barrier"), ("zinc-sweep", "sweep"), ("zinc-engine", "engine")]
    {
        let said = Child::new(root.join("usr/bin").join(program)).arg("--version").run().succeeded().stdout;
        assert!(said.starts_with(name), "{said}");
        let completions = root.join("usr/share/bash-completion/completions").join(program);
        let text = fs::read_to_string(&completions).unwrap();
        assert!(text.lines().any(|line| line.ends_with(&format!(" {program}"))), "not for {program}: {text}");
        Child::new("bash").arg("-n").arg(&completions).run().succeeded();
    }

    // The manifests name places under /usr. The same ones under the folder, and the loader takes the layer from there.
    let data = root.join("usr/share");
    for kind in ["explicit_layer.d", "implicit_layer.d"] {
        let path = data.join("vulkan").join(kind).join("zinc_barrier.json");
        let text = fs::read_to_string(&path).unwrap();
        let place = "/usr/lib/zinc_barrier/libzinc_barrier.so";
        assert!(text.contains(&format!("\"{place}\"")), "{text}");
        fs::write(&path, text.replace(place, &format!("{}{place}", root.display()))).unwrap();
    }
    let report = folder.path().join("report.json");
    let stream =
        Stream::new("buffer a 1024\nbuffer b 1024\nbegin x\ndispatch step a b\nend\nsubmit x\nwait\n");
    let child = stream.child(folder.path()).env("XDG_DATA_DIRS", &data).env("ZINC_BARRIER_REPORT", &report);
    child.env("ZINC_BARRIER", "1").run().succeeded();
    assert_eq!(read_report(&report).totals.dispatches, 1);
}

#[test]
fn a_package_without_all_its_files_is_not_made() {
    let folder = scratch();
    let (from, out) = (built(folder.path()), folder.path().join("out"));
    fs::remove_file(from.join("libzinc_packets.so")).unwrap();
    make(&from, &out).run().refused(3, &["libzinc_packets.so", "missing"]);
    assert!(!out.exists(), "something was left behind");
    Child::new(repository().join("layer/package/deb"))
        .arg("--everything")
        .run()
        .refused(2, &["--everything", "--from"]);
    Child::new(repository().join("layer/package/aarch64"))
        .arg("--everything")
        .run()
        .refused(2, &["--everything"]);
}
