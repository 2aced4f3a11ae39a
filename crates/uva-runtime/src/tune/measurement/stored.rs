//! The figures of a GPU, in a file of the user's cache folder.

use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use uva_cuda::DeviceReport;
use uva_mem::files::{read_kernel_text, read_regular, replace};

use super::figures::{Figures, MeasurementShape};

/// The version of the format, raised with every change of the figures' meaning.
const FORMAT: u32 = 2;

/// Maximum size of a file of this program.
const LARGEST: u64 = 1 << 20;

/// Maximum number of shapes that are kept for a GPU; the oldest is removed first.
const MOST_SHAPES: usize = 64;

/// The machine that figures depend on: another GPU, driver or link has other figures.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// The GPU's UUID.
    pub gpu: String,
    /// NVIDIA's product name.
    pub name: String,
    /// The versions of driver and CUDA.
    pub driver: String,
    /// Generation and width of the link, or otherwise its address.
    pub link: String,
}

impl Machine {
    /// This machine with that GPU. `cuda` is the CUDA version of the driver.
    pub fn with(device: &DeviceReport, cuda: Option<&str>) -> Self {
        let mut driver = format!("CUDA {}", cuda.unwrap_or("unknown"));
        if let Ok(version) = read_kernel_text("/sys/module/nvidia/version") {
            driver = format!("{}, {driver}", version.trim());
        }
        Self {
            gpu: device.uuid.clone(),
            name: device.name.clone(),
            driver,
            link: link(Path::new("/sys/bus/pci/devices"), &device.pci_bus_id),
        }
    }

    /// The first difference between the measured machine and this one.
    fn difference(&self, measured: &Self) -> Option<String> {
        let pairs = [
            ("GPU", &self.gpu, &measured.gpu),
            ("GPU", &self.name, &measured.name),
            ("driver", &self.driver, &measured.driver),
            ("link", &self.link, &measured.link),
        ];
        let differs = pairs.into_iter().find(|(_, here, there)| here != there);
        differs.map(|(what, here, there)| format!("its {what} is {there}, but this machine has {here}"))
    }
}

/// The link's generation and width, or its address if the system does not report them.
fn link(devices: &Path, address: &str) -> String {
    let folder = devices.join(address.to_ascii_lowercase());
    // The maximum speed of the link: an idle link is slower to save power.
    let speed = read_kernel_text(folder.join("max_link_speed"));
    let width = read_kernel_text(folder.join("current_link_width"));
    match (speed, width) {
        (Ok(speed), Ok(width)) => format!("{} x{}", speed.trim(), width.trim()),
        _ => format!("at {address}"),
    }
}

#[derive(Serialize, Deserialize)]
struct Content {
    format: u32,
    machine: Machine,
    measured: Vec<Figures>,
}

/// The content of a GPU's file.
#[derive(Clone, Debug, PartialEq)]
pub enum StoredMeasurement {
    /// There is no file.
    Nothing,
    /// The file cannot be used, for this reason.
    Stale(String),
    /// The figures of each shape.
    Figures(Vec<Figures>),
}

/// The file of a GPU.
#[derive(Clone, Debug)]
pub struct FigureFile {
    path: PathBuf,
    machine: Machine,
}

impl FigureFile {
    /// The file in the user's cache folder for this program; `None` if the folder cannot be determined.
    pub fn of_user(machine: Machine) -> Option<Self> {
        Some(Self::within(&uva_cuda::user_cache_folder()?.join("measured"), machine))
    }

    /// The file in this folder.
    pub fn within(folder: &Path, machine: Machine) -> Self {
        let name: String = machine
            .gpu
            .chars()
            .map(|c| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' })
            .collect();
        Self { path: folder.join(format!("{name}.json")), machine }
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The machine that it belongs to.
    pub fn machine(&self) -> &Machine {
        &self.machine
    }

    /// Reads its content for this machine.
    pub fn read(&self) -> StoredMeasurement {
        let bytes = match read_regular(&self.path, LARGEST) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return StoredMeasurement::Nothing,
            Err(error) => return StoredMeasurement::Stale(error.to_string()),
        };
        let format = serde_json::from_slice::<serde_json::Value>(&bytes).ok();
        match format.as_ref().and_then(|value| value["format"].as_u64()) {
            Some(format) if format != u64::from(FORMAT) => {
                return StoredMeasurement::Stale(format!(
                    "its format is {format}, but this version has {FORMAT}"
                ));
            }
            _ => {}
        }
        let content: Content = match serde_json::from_slice(&bytes) {
            Ok(content) => content,
            Err(error) => return StoredMeasurement::Stale(format!("it is damaged: {error}")),
        };
        match self.machine.difference(&content.machine) {
            Some(difference) => StoredMeasurement::Stale(difference),
            None => StoredMeasurement::Figures(content.measured),
        }
    }

    /// The figures of this shape, or the reason why there are no valid ones.
    pub fn figures(&self, shape: &MeasurementShape) -> Result<Option<Figures>, String> {
        match self.read() {
            StoredMeasurement::Nothing => Ok(None),
            StoredMeasurement::Stale(why) => Err(why),
            StoredMeasurement::Figures(figures) => {
                Ok(figures.into_iter().find(|figures| figures.shape == *shape))
            }
        }
    }

    /// Adds figures, in place of earlier ones of their shape and of those that are not valid on this machine.
    ///
    /// # Errors
    /// Errors of the file system.
    pub fn keep(&self, figures: &Figures) -> io::Result<()> {
        let mut measured = match self.read() {
            StoredMeasurement::Figures(measured) => measured,
            StoredMeasurement::Nothing | StoredMeasurement::Stale(_) => Vec::new(),
        };
        measured.retain(|other| other.shape != figures.shape);
        let surplus = (measured.len() + 1).saturating_sub(MOST_SHAPES);
        measured.drain(..surplus);
        measured.push(figures.clone());
        let content = Content { format: FORMAT, machine: self.machine.clone(), measured };
        let mut text = serde_json::to_string_pretty(&content)?;
        text.push('\n');
        if let Some(folder) = self.path.parent() {
            std::fs::create_dir_all(folder)?;
        }
        replace(&self.path, 0o666, text.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use uva_cuda::kernels::gather::Kernel;

    use super::*;

    fn machine() -> Machine {
        Machine {
            gpu: "GPU-1/..".to_owned(),
            name: "a GPU".to_owned(),
            driver: "580.1, CUDA 13.0".to_owned(),
            link: "32.0 GT/s PCIe x16".to_owned(),
        }
    }

    fn figures(row_bytes: usize, seconds: f64) -> Figures {
        let shape = MeasurementShape::new(1 << 28, row_bytes, Kernel::Wide, 2);
        Figures { shape, multiprocessors: 132, sample_bytes: 1, seconds, cases: Vec::new() }
    }

    #[test]
    fn figures_are_kept_by_shape_and_a_new_measurement_replaces_the_old_one() {
        let folder = tempfile::tempdir().unwrap();
        let file = FigureFile::within(&folder.path().join("new"), machine());
        let shape = figures(400, 0.0).shape;
        assert_eq!((file.read(), file.figures(&shape)), (StoredMeasurement::Nothing, Ok(None)));
        for (row_bytes, seconds) in [(400, 1.0), (512, 2.0), (400, 3.0)] {
            file.keep(&figures(row_bytes, seconds)).unwrap();
        }
        assert_eq!(file.read(), StoredMeasurement::Figures(vec![figures(512, 2.0), figures(400, 3.0)]));
        assert_eq!(file.figures(&shape), Ok(Some(figures(400, 3.0))));
        let other = MeasurementShape { gather_threads: 1, ..shape };
        // A table of another size has other rates.
        let larger = MeasurementShape::new(1 << 40, 400, Kernel::Wide, 2);
        assert_eq!((larger.up_to_bytes, file.figures(&larger)), (4 << 30, Ok(None)));
        assert_eq!(file.figures(&other), Ok(None));
        // One file, for any content of a UUID.
        let names: Vec<_> = std::fs::read_dir(folder.path().join("new")).unwrap().collect();
        assert_eq!(names.len(), 1);
        for row_bytes in 1..=2 * MOST_SHAPES {
            file.keep(&figures(row_bytes, 0.0)).unwrap();
        }
        let StoredMeasurement::Figures(kept) = file.read() else { panic!("nothing kept") };
        assert_eq!((kept.len(), kept.last()), (MOST_SHAPES, Some(&figures(2 * MOST_SHAPES, 0.0))));
    }

    #[test]
    fn a_file_that_does_not_hold_here_says_why_and_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let file = FigureFile::within(folder.path(), machine());
        let stale = |file: &FigureFile| match file.read() {
            StoredMeasurement::Stale(why) => why,
            other => panic!("{other:?}"),
        };
        let others = [
            Machine { name: "another".to_owned(), ..machine() },
            Machine { driver: "590.2, CUDA 13.1".to_owned(), ..machine() },
            Machine { link: "16.0 GT/s PCIe x8".to_owned(), ..machine() },
        ];
        for other in others {
            FigureFile::within(folder.path(), other).keep(&figures(400, 1.0)).unwrap();
            let why = stale(&file);
            assert!(why.contains("but this machine has"), "{why}");
        }
        // A copy of another GPU's file.
        let other = FigureFile::within(folder.path(), Machine { gpu: "GPU-2".to_owned(), ..machine() });
        other.keep(&figures(400, 1.0)).unwrap();
        std::fs::copy(other.path(), file.path()).unwrap();
        assert!(stale(&file).contains("its GPU is GPU-2"), "{}", stale(&file));
        for (content, part) in [
            ("{\"format\": 1, \"machine\"", "damaged"),
            ("", "damaged"),
            ("{\"format\": 1}", "its format is 1"),
            ("[]", "damaged"),
        ] {
            std::fs::write(file.path(), content).unwrap();
            assert!(stale(&file).contains(part), "{content}: {}", stale(&file));
            assert!(file.figures(&figures(400, 0.0).shape).is_err());
        }
        file.keep(&figures(400, 5.0)).unwrap();
        assert_eq!(file.read(), StoredMeasurement::Figures(vec![figures(400, 5.0)]));
    }

    #[test]
    fn a_link_is_identified_by_generation_and_width_or_by_its_address() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(link(folder.path(), "0000:0A:00.0"), "at 0000:0A:00.0");
        let device = folder.path().join("0000:0a:00.0");
        std::fs::create_dir(&device).unwrap();
        std::fs::write(device.join("max_link_speed"), "32.0 GT/s PCIe\n").unwrap();
        std::fs::write(device.join("current_link_width"), "16\n").unwrap();
        assert_eq!(link(folder.path(), "0000:0A:00.0"), "32.0 GT/s PCIe x16");
    }
}
