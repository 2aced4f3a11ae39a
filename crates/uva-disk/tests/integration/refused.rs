//! Systems that refuse io_uring or `O_DIRECT`.

use std::path::Path;
use std::process::Command;

use uva_disk::{DiskError, ReaderKind, RowFile, TableShape};

const SHAPE: TableShape = TableShape { offset: 64, rows: 50, row_bytes: 1000 };

/// The variable with the name of the file that a test's child process reads.
const FILE: &str = "UVA_DISK_TEST_FILE";

fn write(path: &Path) {
    std::fs::write(path, (0..60_000_u32).map(|i| (i * 7) as u8).collect::<Vec<_>>()).unwrap();
}

fn check_rows(file: &mut RowFile) {
    let rows = [3_u64, 49, 3, 0];
    let mut seen = vec![Vec::new(); rows.len()];
    file.read(rows.into_iter().enumerate(), |place, row| seen[place] = row.to_vec()).unwrap();
    for (place, row) in rows.into_iter().enumerate() {
        let expected: Vec<u8> = (0..1000).map(|i| ((64 + row as u32 * 1000 + i) * 7) as u8).collect();
        assert!(seen[place] == expected, "row {row}");
    }
}

/// Forbids io_uring to this thread, as under Docker's default filter.
fn forbid_io_uring(errno: i32) {
    let statement = |code: u32, k: u32| libc::sock_filter { code: code as u16, jt: 0, jf: 0, k };
    let jump_if = |k: u32, jt: u8| libc::sock_filter {
        code: (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16,
        jt,
        jf: 0,
        k,
    };
    let mut program = [
        // The number of the system call is the first field of what a filter sees.
        statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0),
        jump_if(libc::SYS_io_uring_setup as u32, 3),
        jump_if(libc::SYS_io_uring_enter as u32, 2),
        jump_if(libc::SYS_io_uring_register as u32, 1),
        statement(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ALLOW),
        statement(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ERRNO | errno as u32),
    ];
    let program = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    // SAFETY: the program outlives the calls, which copy it; its length is that of the array.
    unsafe {
        assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
        assert_eq!(libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &program), 0);
    }
}

#[test]
fn where_a_filter_forbids_io_uring_threads_read_and_a_line_says_why() {
    if let Some(path) = std::env::var_os(FILE) {
        let path = Path::new(&path);
        for (errno, says) in [(libc::EPERM, "a seccomp filter forbids it"), (libc::ENOSYS, "hides it")] {
            // A filter applies to the thread that installs it, and to threads that it starts.
            std::thread::scope(|scope| {
                let thread = scope.spawn(move || {
                    forbid_io_uring(errno);
                    let mut file = RowFile::open(path, SHAPE, None).unwrap();
                    assert_eq!(file.reader(), ReaderKind::Pread);
                    let [line] = file.passed_over() else { panic!("{:?}", file.passed_over()) };
                    assert!(line.starts_with("uring is not used: ") && line.contains(says), "{line}");
                    check_rows(&mut file);
                    let error = RowFile::open(path, SHAPE, Some(ReaderKind::Uring)).err().unwrap();
                    assert!(
                        matches!(error, DiskError::Refused { reader: ReaderKind::Uring, .. }),
                        "{error:?}"
                    );
                    assert!(error.to_string().contains(says), "{error}");
                });
                thread.join().unwrap();
            });
        }
        println!("all of it was seen");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("feat.npy");
    write(&path);
    // Without O_DIRECT, io_uring is skipped before it is requested.
    let direct = RowFile::open(&path, SHAPE, Some(ReaderKind::Pread)).unwrap().how();
    if direct.contains("without O_DIRECT") {
        eprintln!("{}: {direct}", path.display());
        return;
    }
    let name = "refused::where_a_filter_forbids_io_uring_threads_read_and_a_line_says_why";
    let child = Command::new(std::env::current_exe().unwrap())
        .args([name, "--exact", "--nocapture", "--test-threads=1"])
        .env(FILE, &path)
        .output()
        .unwrap();
    let (out, errors) = (String::from_utf8_lossy(&child.stdout), String::from_utf8_lossy(&child.stderr));
    assert!(child.status.success() && out.contains("all of it was seen"), "{out}\n{errors}");
}

#[test]
fn a_file_in_memory_is_read_by_whatever_its_file_system_allows() {
    let Ok(folder) = tempfile::tempdir_in("/dev/shm") else {
        eprintln!("there is no /dev/shm to write to");
        return;
    };
    let path = folder.path().join("feat.npy");
    write(&path);
    let mut file = RowFile::open(&path, SHAPE, None).unwrap();
    // tmpfs takes O_DIRECT since Linux 6.6.
    assert_ne!(file.reader(), ReaderKind::Mmap);
    check_rows(&mut file);
    for kind in [ReaderKind::Pread, ReaderKind::Mmap] {
        check_rows(&mut RowFile::open(&path, SHAPE, Some(kind)).unwrap());
    }
}
