//! `engine fetch`: a model or vocabulary from the package registry that pip uses.

use clap::Args;

use super::{print_json, print_text, remark};
use crate::cli::Common;
use crate::error::Error;
use crate::packages::{self, PACKAGES, Package};

/// Options of `fetch`.
#[derive(Debug, Args)]
pub struct FetchArgs {
    /// What to fetch; nothing to see what there is.
    #[arg(value_name = "NAME")]
    pub names: Vec<String>,
}

pub(super) fn execute(common: &Common, args: &FetchArgs) -> Result<(), Error> {
    if args.names.is_empty() {
        return list(common);
    }
    let wanted = args
        .names
        .iter()
        .map(|name| Package::named(name).ok_or_else(|| packages::Error::Unknown(name.clone())))
        .collect::<Result<Vec<_>, _>>()?;
    for package in wanted {
        let there = package.is_there();
        let path = if there {
            package.path()?
        } else {
            let megabytes = package.bytes as f64 / 1e6;
            remark(&format!("fetching {}: {megabytes:.1} MB, licence {}", package.what, package.licence));
            package.fetch()?
        };
        if common.json {
            print_json(&serde_json::json!({
                "command": "fetch", "name": package.name, "path": path, "sha256": package.sha256,
                "bytes": package.bytes, "licence": package.licence, "was_there": there,
            }))?;
        } else {
            // The path alone on standard output, so that it can be handed to another program.
            print_text(&path.display().to_string())?;
            if package.is_model {
                remark(&format!("use it with --model {}", package.name));
            }
        }
    }
    Ok(())
}

fn list(common: &Common) -> Result<(), Error> {
    for package in PACKAGES {
        let Package { name, what, licence, bytes, .. } = package;
        let there = package.is_there();
        if common.json {
            print_json(
                &serde_json::json!({ "name": name, "what": what, "licence": licence, "bytes": bytes, "there": there }),
            )?;
        } else {
            let mark = if there { "there" } else { "-" };
            print_text(&format!(
                "{name:18} {:7.1} MB  {mark:6} {what}; licence {licence}",
                bytes as f64 / 1e6
            ))?;
        }
    }
    Ok(())
}
