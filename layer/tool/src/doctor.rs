//! `zinc-barrier doctor`: what is installed, and why the layer would not be loaded.
//!
//! A layer that is not loaded fails in silence: the program runs, faster or slower, and nothing was measured. The
//! loader gives no reason. The doctor therefore gathers facts ([`Facts`]), tries both ways of inserting the layer in
//! child processes, and from the facts alone derives reasons with remedies ([`Facts::problems`]), which is what
//! the tests test.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use anyhow::Result;
use zinc_report::api_version_text;
use zinc_settings::manifest::{Found, Kind, LAYER_NAME, NEGOTIATE};
use zinc_settings::search::Search;
use zinc_settings::variables::{DISABLE, ENABLE};
use zinc_settings::{Elsewhere, Settings, printable};

use crate::overrides::{self, Override};
use crate::probe::{self, Loader, Seen};

/// All that the doctor looks at.
#[derive(Debug)]
pub struct Facts {
    /// The loader, or why there is none.
    pub loader: Result<Loader, String>,
    /// Driver manifests.
    pub drivers: Vec<PathBuf>,
    /// Manifests of this layer, in the loader's order, each with what is wrong with its library.
    pub manifests: Vec<(Found, Option<String>)>,
    /// An instance without further ado.
    pub plain: Seen,
    /// An instance with the layer in `VK_INSTANCE_LAYERS`.
    pub by_name: Seen,
    /// An instance with `ZINC_BARRIER=1`.
    pub by_switch: Seen,
    /// Variables that change the loader's mind, with a sentence on each.
    pub variables: Vec<String>,
    /// Files of other programs that may keep the layer out.
    pub overrides: Vec<Override>,
    /// What the layer itself will complain about.
    pub settings: Vec<String>,
}

impl Facts {
    /// Looks around.
    ///
    /// # Errors
    ///
    /// If not even a child process can be started.
    pub fn gather() -> Result<Facts> {
        let search = Search { lookup: |name: &str| std::env::var_os(name) };
        let manifests: Vec<_> = search
            .ours()
            .into_iter()
            .map(|found| {
                let wrong = library_fault(&found);
                (found, wrong)
            })
            .collect();
        let layers = match std::env::var("VK_INSTANCE_LAYERS") {
            Ok(others) if !others.is_empty() => format!("{LAYER_NAME}:{others}"),
            _ => LAYER_NAME.into(),
        };
        Ok(Facts {
            loader: probe::loader().map_err(|why| format!("{why:#}")),
            drivers: search.drivers(),
            plain: probe::in_child(&[])?,
            by_name: probe::in_child(&[("VK_INSTANCE_LAYERS", layers)])?,
            by_switch: probe::in_child(&[(ENABLE, "1".into())])?,
            variables: variables(&search, &manifests),
            overrides: overrides::find(&search),
            settings: Settings::from_environment(&Elsewhere::of_file()).1,
            manifests,
        })
    }

    /// Whether both ways insert the layer.
    pub fn is_well(&self) -> bool {
        self.by_name.layer.is_some() && self.by_switch.layer.is_some()
    }

    /// Why the layer would not be loaded or would not do as told, each with a remedy.
    pub fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        if let Err(why) = &self.loader {
            problems.push(format!("{why}; install the Vulkan loader (Debian: libvulkan1)"));
        }
        if self.drivers.is_empty() {
            problems.push(
                "there is no driver manifest; install a Vulkan driver (Debian: mesa-vulkan-drivers), or name its \
                 manifest in VK_DRIVER_FILES and VK_ICD_FILENAMES"
                    .into(),
            );
        }
        let has = |kind| self.manifests.iter().any(|(found, _)| found.kind == kind);
        match (has(Kind::Implicit), has(Kind::Explicit)) {
            (false, false) => problems.push("the layer is not installed; run 'zinc-barrier install --user'".into()),
            // What was seen counts more than what is expected.
            (true, false) if self.by_name.layer.is_none() => problems.push(format!(
                "only the implicit manifest is found, and loaders such as 1.3.239 then ignore \
                 VK_INSTANCE_LAYERS={LAYER_NAME} without a word; run 'zinc-barrier install' again, or use {ENABLE}=1"
            )),
            (false, true) if self.by_switch.layer.is_none() => problems.push(format!(
                "only the explicit manifest is found, so {ENABLE}=1 does nothing; run 'zinc-barrier install' again, \
                 or use VK_INSTANCE_LAYERS={LAYER_NAME}"
            )),
            _ => {}
        }
        problems.extend(self.manifests.iter().filter_map(|(found, wrong)| {
            wrong
                .as_ref()
                .map(|wrong| format!("{}: {wrong}; run 'zinc-barrier install' again", found.path.display()))
        }));
        problems.extend(self.two_installations());
        problems.extend(self.too_old());
        problems.extend(self.variables.iter().cloned());
        if !self.is_well() {
            problems.extend(self.overrides.iter().map(|o| format!("{} {}", o.path.display(), o.how)));
        }
        for (how, seen) in self.ways() {
            problems.extend(seen.error.as_ref().map(|error| format!("with {how}: {error}")));
        }
        problems.extend(self.settings.iter().cloned());
        if problems.is_empty() && !self.is_well() {
            problems.push(
                "nothing is wrong that this program knows of, and still the loader leaves the layer out; \
                 VK_LOADER_DEBUG=all before a Vulkan program shows the loader's own account"
                    .into(),
            );
        }
        problems
    }

    fn ways(&self) -> [(String, &Seen); 3] {
        [
            ("this environment as it is".into(), &self.plain),
            (format!("VK_INSTANCE_LAYERS={LAYER_NAME}"), &self.by_name),
            (format!("{ENABLE}=1"), &self.by_switch),
        ]
    }

    /// The loader takes the first manifest of a name; two that name different libraries make the layer used
    /// depend on the variable.
    fn two_installations(&self) -> Option<String> {
        let (first, _) = self.manifests.first()?;
        let (other, _) = self.manifests.iter().find(|(found, _)| found.library != first.library)?;
        Some(format!(
            "{} and {} name different libraries; uninstall one of them",
            first.path.display(),
            other.path.display()
        ))
    }

    /// The loader drops an implicit layer whose version is below what the application asks for.
    fn too_old(&self) -> Option<String> {
        let loader = self.loader.as_ref().ok()?;
        let newest = (loader.version >> 22 & 0x7f, loader.version >> 12 & 0x3ff);
        let (found, _) = self.manifests.iter().find(|(found, _)| {
            let mut numbers = found.api_version.split('.').map(|n| n.parse::<u32>().unwrap_or(0));
            let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
            found.kind == Kind::Implicit && version < newest
        })?;
        Some(format!(
            "{} says api_version {}, so the loader leaves the layer out of programs that ask for Vulkan {}.{}; \
             install a newer version of the layer",
            found.path.display(),
            found.api_version,
            newest.0,
            newest.1
        ))
    }

    /// The whole account. Ends with a newline.
    pub fn text(&self) -> String {
        let mut out = String::new();
        // Writing to a string does not fail.
        let mut section = |title: &str, lines: Vec<String>, none: &str| {
            let _ = writeln!(out, "{title}");
            let none = lines.is_empty().then(|| none.to_string());
            for line in lines.into_iter().chain(none) {
                let _ = writeln!(out, "  {line}");
            }
        };
        let (loader, layers) = match &self.loader {
            Ok(l) => {
                let version = api_version_text(l.version);
                (vec![format!("{}, Vulkan {version}", l.path.display())], l.layers.clone())
            }
            Err(_) => (vec![], vec![]),
        };
        section("loader", loader, "none");
        section("driver manifests", self.drivers.iter().map(|p| p.display().to_string()).collect(), "none");
        section("devices", self.plain.devices.clone(), "none");
        section("layers that the loader lists", layers, "none");
        section(
            &format!("manifests of {LAYER_NAME}"),
            self.manifests.iter().map(manifest_line).collect(),
            "none",
        );
        let ways = self.ways().map(|(how, seen)| match &seen.layer {
            Some(path) => format!("{how}: inserted, from {}", path.display()),
            None => format!("{how}: not inserted"),
        });
        section("is the layer inserted?", ways.into(), "");
        section("problems", self.problems(), "none");
        out
    }
}

fn manifest_line((found, wrong): &(Found, Option<String>)) -> String {
    let library = found.library.as_deref().unwrap_or(Path::new("no library"));
    let state = if wrong.is_some() { "cannot be used" } else { "can be opened" };
    format!("{} {} -> {} ({state})", found.kind.name(), found.path.display(), library.display())
}

/// Why the library of a manifest cannot be loaded, if it cannot.
fn library_fault(found: &Found) -> Option<String> {
    let Some(path) = &found.library else { return Some("it names no library".into()) };
    if path.is_absolute() && !path.exists() {
        return Some(format!("the library {} does not exist", path.display()));
    }
    // SAFETY: the manifest invites every Vulkan program to load this library; its initialisers run there too.
    let library = match unsafe { libloading::Library::new(path) } {
        Ok(library) => library,
        Err(why) => return Some(format!("the library {} cannot be opened ({why})", path.display())),
    };
    // SAFETY: the symbol is looked up and not called, so its type does not matter.
    let negotiate = unsafe { library.get::<*const ()>(NEGOTIATE) };
    negotiate.err().map(|_| format!("the library {} has no function {NEGOTIATE}", path.display()))
}

/// Returns true if a name is most likely meant for this layer, and is not its name.
fn is_meant(name: &str) -> bool {
    let plain = name.trim().to_lowercase().replace(['-', '.'], "_");
    let plain = plain.strip_prefix("vk_layer_").unwrap_or(&plain);
    let is_near =
        plain.contains("zinc") || (plain.len() > 6 && strsim::damerau_levenshtein(plain, LAYER_NAME) <= 2);
    is_near && name.trim() != LAYER_NAME && !plain.contains('*')
}

/// Variables of the loader that keep the layer out or hide it.
fn variables<L>(search: &Search<L>, manifests: &[(Found, Option<String>)]) -> Vec<String>
where
    L: Fn(&str) -> Option<std::ffi::OsString>,
{
    let mut found = Vec::new();
    if search.is_set(DISABLE) {
        found.push(format!("{DISABLE} is set, so the layer stays out or does nothing; unset it"));
    }
    for kind in Kind::ALL {
        found.extend(search.filtered(kind).map(|variable| {
            format!(
                "{variable} keeps the {} layer out; change it, or set VK_LOADER_LAYERS_ALLOW",
                kind.name()
            )
        }));
    }
    if let Some(value) = search.text(ENABLE).filter(|value| value != "1") {
        found.push(format!(
            "{ENABLE}={} does not insert the layer, since the loader compares letter by letter; set {ENABLE}=1",
            printable(value.as_ref())
        ));
    }
    for variable in ["VK_INSTANCE_LAYERS", "VK_LOADER_LAYERS_ENABLE"] {
        let value = search.text(variable).unwrap_or_default();
        found.extend(value.split([':', ',']).filter(|name| is_meant(name)).map(|name| {
            format!(
                "{variable} names {}, and no layer is called that; the name is {LAYER_NAME}",
                printable(name.as_ref())
            )
        }));
    }
    for (variable, kind) in [("VK_LAYER_PATH", Kind::Explicit), ("VK_IMPLICIT_LAYER_PATH", Kind::Implicit)] {
        if search.is_set(variable) && !manifests.iter().any(|(m, _)| m.kind == kind) {
            found.push(format!(
                "{variable} replaces the usual folders and leads to no {} manifest of the layer; unset it or add \
                 the layer's folder to it",
                kind.name()
            ));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn well() -> Facts {
        let seen = Seen { devices: vec!["a device".into()], ..Seen::default() };
        let inserted = Seen { layer: Some("/l/libzinc_barrier.so".into()), ..seen.clone() };
        let manifest = |kind: Kind| Found {
            path: format!("/m/{}/zinc_barrier.json", kind.folder()).into(),
            kind,
            library: Some("/l/libzinc_barrier.so".into()),
            api_version: "1.4.0".into(),
        };
        Facts {
            loader: Ok(Loader {
                path: "/l/libvulkan.so.1".into(),
                version: 1 << 22 | 3 << 12 | 239,
                layers: vec![],
            }),
            drivers: vec!["/d/lvp_icd.json".into()],
            manifests: Kind::ALL.map(|kind| (manifest(kind), None)).into(),
            plain: seen,
            by_name: inserted.clone(),
            by_switch: inserted,
            variables: vec![],
            overrides: vec![],
            settings: vec![],
        }
    }

    #[test]
    fn a_sound_installation_has_no_problems() {
        let facts = well();
        assert!(facts.is_well());
        assert_eq!(facts.problems(), Vec::<String>::new());
        assert!(facts.text().contains("libvulkan.so.1, Vulkan 1.3.239"), "{}", facts.text());
        assert!(facts.text().ends_with("problems\n  none\n"), "{}", facts.text());
    }

    #[test]
    fn each_fault_is_named_with_its_remedy() {
        type Fault = fn(&mut Facts);
        let cases: [(Fault, &str); 9] = [
            (|f| f.loader = Err("the Vulkan loader cannot be opened".into()), "libvulkan1"),
            (|f| f.drivers.clear(), "mesa-vulkan-drivers"),
            (|f| f.manifests.clear(), "install --user"),
            (
                |f| {
                    f.manifests.remove(1);
                    f.by_name.layer = None;
                },
                "only the implicit manifest",
            ),
            (
                |f| {
                    f.manifests.remove(0);
                    f.by_switch.layer = None;
                },
                "only the explicit manifest",
            ),
            (|f| f.manifests[0].1 = Some("the library is gone".into()), "the library is gone; run"),
            (|f| f.manifests[1].0.library = Some("/other.so".into()), "different libraries"),
            (|f| f.manifests[0].0.api_version = "1.2.999".into(), "ask for Vulkan 1.3"),
            (|f| f.plain.error = Some("ended by a signal".into()), "as it is: ended by a signal"),
        ];
        for (fault, words) in cases {
            let mut facts = well();
            fault(&mut facts);
            let problems = facts.problems();
            assert!(problems.len() == 1 && problems[0].contains(words), "{words}: {problems:?}");
        }
    }

    #[test]
    fn what_was_seen_counts_more_than_what_the_manifests_let_expect() {
        let mut facts = well();
        facts.manifests.remove(0);
        assert_eq!(facts.problems(), Vec::<String>::new(), "the loader inserts it all the same");
        let mut facts = well();
        facts.overrides.push(Override { path: "/o.json".into(), how: "keeps it out".into() });
        assert_eq!(facts.problems(), Vec::<String>::new(), "a file that this loader does not read");
        facts.by_name.layer = None;
        assert_eq!(facts.problems(), ["/o.json keeps it out"]);
    }

    #[test]
    fn a_layer_that_is_left_out_for_no_known_reason_is_not_called_well() {
        let mut facts = well();
        facts.by_switch.layer = None;
        assert!(!facts.is_well());
        assert!(facts.problems()[0].contains("VK_LOADER_DEBUG"));
    }

    #[test]
    fn variables_that_keep_the_layer_out_are_named() {
        let search = |name: &'static str, value: &'static str| Search {
            lookup: move |wanted: &str| (wanted == name).then(|| value.into()),
        };
        for (name, value) in [
            ("DISABLE_ZINC_BARRIER", "1"),
            ("VK_LOADER_LAYERS_DISABLE", "~implicit~"),
            ("VK_LAYER_PATH", "/nowhere"),
            ("VK_IMPLICIT_LAYER_PATH", "/nowhere"),
            ("ZINC_BARRIER", "true"),
            ("ZINC_BARRIER", "on"),
            ("VK_INSTANCE_LAYERS", "VK_LAYER_other:zinc-barrier"),
            ("VK_INSTANCE_LAYERS", "VK_LAYER_zinc_barrier"),
            ("VK_INSTANCE_LAYERS", "ZINC_BARRIER"),
            ("VK_INSTANCE_LAYERS", "znic_barrier"),
            ("VK_LOADER_LAYERS_ENABLE", "zinc_bariers"),
        ] {
            let found = variables(&search(name, value), &[]);
            assert!(found.len() == 1 && found[0].starts_with(name), "{found:?}");
        }
        for (name, value) in [
            ("HOME", "/"),
            ("ZINC_BARRIER", "1"),
            ("VK_INSTANCE_LAYERS", "zinc_barrier:VK_LAYER_KHRONOS_validation"),
            ("VK_LOADER_LAYERS_ENABLE", "*zinc*"),
        ] {
            assert_eq!(variables(&search(name, value), &[]), Vec::<String>::new(), "{name}={value}");
        }
    }
}
