//! What is in the corpus, and who is to blame.
//!
//! The functions to blame are those that the published report or the mend names, written down before
//! anything is run; a finding in another function of the crate does not count as found.

/// A driver, by its folder.
pub(super) struct Bug {
    pub(super) name: &'static str,
    /// The package whose functions are regions.
    pub(super) package: &'static str,
    /// Parts of the names of the functions to blame; none in a trap.
    pub(super) culprits: &'static [&'static str],
    /// How often the driver tries.
    pub(super) trials: u32,
    /// The two lines, if the function to blame has other gaps, which are not the mistake.
    pub(super) gap: Option<[u32; 2]>,
    /// Whether the published mistake is no lack of atomicity, so that only a gap beside it can be found.
    pub(super) beside: bool,
}

pub(super) const BUGS: &[Bug] = &[
    bug(
        "promclient_family",
        "prometheus-client",
        &["Family::get_or_create"],
        40,
    ),
    bug(
        "lasso_intern",
        "lasso",
        &["ThreadedRodeo::try_get_or_intern"],
        40,
    ),
    bug(
        "maitake_rwspin",
        "maitake-sync",
        &[
            "RawRwLock>::try_lock_shared",
            "RawRwLock>::unlock_exclusive",
        ],
        300,
    ),
    bug(
        "lockapi_remutex",
        "lock_api",
        &["RawReentrantMutex::unlock"],
        200,
    ),
    Bug {
        beside: true,
        ..bug(
            "rusty_pool_join",
            "rusty_pool",
            &[
                "ThreadPool::join",
                "ThreadPool::inner_join",
                "ThreadPool::_do_join",
            ],
            20,
        )
    },
    bug(
        "tokio_oneshot",
        "tokio",
        &[
            "oneshot::Receiver::try_recv",
            "oneshot::Receiver::close",
            "oneshot::Sender::send",
        ],
        200,
    ),
    bug(
        "cbc_init",
        "crossbeam-channel",
        &[
            "list::Channel::start_send",
            "list::Channel::disconnect_receivers",
            "list::Channel::discard_all_messages",
        ],
        200,
    ),
    bug(
        "i18n_atomicstr",
        "rust-i18n-support",
        &["AtomicStr::clone_string"],
        200,
    ),
    Bug {
        gap: Some([1048, 1063]),
        ..bug(
            "oneshot_drop",
            "oneshot",
            &["<oneshot::Receiver as core::ops::drop::Drop>::drop"],
            2_000,
        )
    },
    bug(
        "serial_test_key",
        "serial_test",
        &["serial_test::check_new_key"],
        50,
    ),
    bug("ctrlc_init", "ctrlc", &["ctrlc::set_handler"], 1),
    bug("metrics_reservoir", "metrics-util", &[], 100),
];

const fn bug(
    name: &'static str,
    package: &'static str,
    culprits: &'static [&'static str],
    trials: u32,
) -> Bug {
    Bug {
        name,
        package,
        culprits,
        trials,
        gap: None,
        beside: false,
    }
}

impl Bug {
    /// Whether a finding in this function, between these lines, is the bug.
    pub(super) fn is(&self, function: &str, lines: &str) -> bool {
        let mut culprits = self.culprits.iter();
        culprits.any(|part| function.ends_with(part))
            && (self.gap).is_none_or(|[first, second]| lines == format!("[{first},{second}]"))
    }
}

/// A crate whose tests should be quiet, and the features that its tests need.
pub(super) struct Suite {
    pub(super) package: &'static str,
    pub(super) features: &'static [&'static str],
}

pub(super) const SUITES: &[Suite] = &[
    suite("once_cell", &[]),
    suite("concurrent-queue", &[]),
    suite("event-listener", &[]),
    suite("crossbeam-queue", &[]),
    suite("crossbeam-deque", &[]),
    suite("crossbeam-channel", &[]),
    suite("parking_lot", &[]),
    suite("arc-swap", &[]),
    suite("flume", &[]),
    suite("dashmap", &[]),
    suite("moka", &["sync"]),
];

const fn suite(package: &'static str, features: &'static [&'static str]) -> Suite {
    Suite { package, features }
}
