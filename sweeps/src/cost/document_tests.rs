use super::*;
use crate::cost::gpu::{Series, Times};
use crate::cost::grid::Grid;

/// A device on which a barrier costs 2 us and 0.5 us for each MiB read between two of them, `all` twice that.
fn imagined(series: &Series) -> Option<Times> {
    let mib = series.work.read as f64 / MIB * f64::from(series.beside);
    let each = match series.scope {
        Scope::None | Scope::NoneAgain => 0.0,
        Scope::All => 4.0 + mib,
        _ => 2.0 + 0.5 * mib,
    };
    let device = f64::from(series.dispatches) * 0.2 + f64::from(series.barriers()) * each;
    Some(Times { device: Some(device), wall: device + 50.0, record: f64::from(series.dispatches) })
}

fn imagine() -> Vec<Sample> {
    let points = Grid::gpu(1 << 36, 8).points(true);
    let rounds = |s: &Series| (0..7).map(|_| imagined(s)).collect();
    points.into_iter().map(|(axis, series)| Sample { axis, series, rounds: rounds(&series) }).collect()
}

fn cost() -> Cost {
    let points = points(&imagine());
    Cost {
        schema: SCHEMA_VERSION,
        sweep_version: "0".into(),
        made_unix_s: 0,
        host: Host { cpu: "c".into(), cores: 1, os: "o".into() },
        device: DeviceReport {
            name: "d".into(),
            driver: "d".into(),
            driver_version: "1".into(),
            api_version: "1.3".into(),
            kind: "cpu".into(),
        },
        proves_speed: false,
        clock: Clock::Device,
        rounds: 7,
        fits: fits(&points),
        notes: notes(&points, false, Clock::Device, "d"),
        points,
    }
}

#[test]
fn a_known_cost_is_found_again_point_by_point_and_as_a_line() {
    let cost = cost();
    for fit in &cost.fits {
        let twice = if fit.scope == Scope::All { 2.0 } else { 1.0 };
        assert!((fit.fixed_us - 2.0 * twice).abs() < 1e-6, "{fit:?}");
        assert!((fit.us_per_mib_read - 0.5 * twice).abs() < 1e-6, "{fit:?}");
        assert!(fit.us_per_mib_dirtied.is_none_or(|d| d.abs() < 1e-6) && fit.rms_us < 1e-6, "{fit:?}");
    }
    assert_eq!(cost.fits.len(), Scope::EVERY.len() - 2);
    let control = cost.points.iter().filter(|p| p.scope == Scope::NoneAgain);
    assert!(control.clone().count() > 3 && control.clone().all(|p| p.us_per_barrier.unwrap().holds_zero()));
}

#[test]
fn between_two_sizes_the_cost_is_in_proportion_and_beyond_them_that_of_the_last() {
    let cost = cost();
    let at = |bytes: f64| cost.at(Scope::Shader, bytes).unwrap().median;
    assert!((at(4.0 * MIB) - 4.0).abs() < 1e-6, "{}", at(4.0 * MIB));
    assert!((at(0.0) - at(2048.0)).abs() < 1e-9);
    assert!((at(1e12) - at(320.0 * MIB)).abs() < 1e-9);
    assert_eq!(cost.at(Scope::NoneAgain, 1.0).map(|i| i.median), Some(0.0));
}

#[test]
fn the_document_comes_back_from_its_json() {
    let cost = cost();
    let read: Cost = serde_json::from_str(&cost.to_json()).unwrap();
    assert_eq!(read.points.len(), cost.points.len());
    assert_eq!(read.device, cost.device);
}

#[test]
fn a_resident_dispatch_that_did_not_fit_is_said_and_costs_nothing() {
    let mut samples = imagine();
    for sample in samples.iter_mut().filter(|s| s.series.scope == Scope::InKernel) {
        sample.rounds = vec![None; 7];
    }
    let points = points(&samples);
    let lost = points.iter().filter(|p| p.scope == Scope::InKernel);
    assert!(lost.clone().count() > 0 && lost.clone().all(|p| p.us_per_barrier.is_none()));
    assert!(notes(&points, true, Clock::Device, "d").iter().any(|n| n.contains("not all resident")));
    assert!(fits(&points).iter().all(|f| f.scope != Scope::InKernel));
}

#[test]
fn a_control_that_costs_something_is_counted() {
    let mut samples = imagine();
    for sample in samples.iter_mut().filter(|s| s.series.scope == Scope::NoneAgain) {
        for times in sample.rounds.iter_mut().flatten() {
            times.device = times.device.map(|t| t * 2.0);
        }
    }
    let count = samples.iter().filter(|s| s.series.scope == Scope::NoneAgain).count();
    let said = notes(&points(&samples), true, Clock::Device, "d");
    assert!(said.iter().any(|n| n.contains(&format!("{count} of {count}"))), "{said:?}");
}
