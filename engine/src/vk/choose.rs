//! Which device: a choice made on plain data.

use std::str::FromStr;

use super::Error;
use crate::results::{Device, DeviceKind};

/// What `--device` names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Selector {
    /// Position in the loader's order.
    Index(u32),
    /// Part of the device's name, letter case ignored.
    Name(String),
}

impl FromStr for Selector {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(text.parse().map_or_else(|_| Self::Name(text.to_owned()), Self::Index))
    }
}

/// What `--require` asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// An integrated, discrete or virtual GPU.
    Gpu,
    /// A CPU driver such as lavapipe.
    Cpu,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::Gpu => "GPU",
            Self::Cpu => "CPU device",
        }
    }

    fn matches(self, kind: DeviceKind) -> bool {
        match self {
            Self::Gpu => kind.is_gpu(),
            Self::Cpu => kind == DeviceKind::Cpu,
        }
    }
}

/// The device to use. Without `--device`, the best kind wins (discrete, integrated, virtual, CPU, other), and among
/// equals the loader's first.
pub fn choose(
    devices: &[Device],
    selector: Option<&Selector>,
    require: Option<Kind>,
) -> Result<usize, Error> {
    if devices.is_empty() {
        return Err(Error::NoDriver);
    }
    let available = || {
        let list = devices.iter().map(|d| format!("{} {:?} ({})", d.index, d.name, d.kind));
        list.collect::<Vec<_>>().join(", ")
    };
    if let Some(selector) = selector {
        let found = match selector {
            Selector::Index(index) => devices.iter().position(|d| d.index == *index),
            Selector::Name(name) => {
                let name = name.to_lowercase();
                devices.iter().position(|d| !name.is_empty() && d.name.to_lowercase().contains(&name))
            }
        };
        let asked = match selector {
            Selector::Index(index) => index.to_string(),
            Selector::Name(name) => name.clone(),
        };
        let index = found.ok_or_else(|| Error::NoSuchDevice { asked, available: available() })?;
        let device = &devices[index];
        return match require {
            Some(require) if !require.matches(device.kind) => Err(Error::NamedWrongKind {
                required: require.name(),
                name: device.name.clone(),
                kind: device.kind,
            }),
            _ => Ok(index),
        };
    }
    let rank = |kind| match kind {
        DeviceKind::DiscreteGpu => 0,
        DeviceKind::IntegratedGpu => 1,
        DeviceKind::VirtualGpu => 2,
        DeviceKind::Cpu => 3,
        DeviceKind::Other => 4,
    };
    (0..devices.len())
        .filter(|&i| require.is_none_or(|require| require.matches(devices[i].kind)))
        .min_by_key(|&i| rank(devices[i].kind))
        .ok_or_else(|| Error::WrongKind {
            required: require.map_or("device", Kind::name),
            available: available(),
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn device(index: u32, name: &str, kind: DeviceKind) -> Device {
        let text = String::new;
        Device {
            index,
            name: name.to_owned(),
            driver: text(),
            driver_version: text(),
            api_version: text(),
            kind,
        }
    }

    fn three() -> Vec<Device> {
        vec![
            device(0, "llvmpipe (LLVM 15)", DeviceKind::Cpu),
            device(1, "Apple M2 Ultra", DeviceKind::IntegratedGpu),
            device(2, "NVIDIA H200", DeviceKind::DiscreteGpu),
        ]
    }

    #[test]
    fn the_best_kind_is_the_default() {
        assert_eq!(choose(&three(), None, None).unwrap(), 2);
        assert_eq!(choose(&three(), None, Some(Kind::Cpu)).unwrap(), 0);
        assert_eq!(choose(&three()[..2], None, Some(Kind::Gpu)).unwrap(), 1);
    }

    #[test]
    fn a_device_is_named_by_number_or_by_part_of_its_name() {
        let named = |text: &str| choose(&three(), Some(&text.parse().unwrap()), None);
        assert_eq!(named("1").unwrap(), 1);
        assert_eq!(named("h200").unwrap(), 2);
        for missing in ["7", "radeon", ""] {
            let message = named(missing).unwrap_err().to_string();
            assert!(message.contains(missing) && message.contains("NVIDIA H200"), "{message}");
        }
    }

    #[test]
    fn a_required_kind_that_is_not_there_is_an_error_that_lists_what_is() {
        let message = choose(&three()[..1], None, Some(Kind::Gpu)).unwrap_err().to_string();
        assert!(message.contains("GPU") && message.contains("llvmpipe"), "{message}");
        let selector = Selector::Index(0);
        assert!(matches!(
            choose(&three(), Some(&selector), Some(Kind::Gpu)),
            Err(Error::NamedWrongKind { .. })
        ));
        assert!(matches!(choose(&[], None, None), Err(Error::NoDriver)));
    }
}
