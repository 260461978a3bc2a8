//! What holds for any course of ticks: nothing of it is lost on its way through the store.

mod course;
mod damaged;
mod deleted;
mod refused;
mod rolled;
mod series;
mod unchanged;

use proptest::test_runner::Config;

/// So few cases of a property, or as many as PROPTEST_CASES says.
pub fn cases(few: u32) -> Config {
    let config = Config {
        failure_persistence: None,
        ..Config::default()
    };
    if std::env::var_os("PROPTEST_CASES").is_some() {
        config
    } else {
        Config {
            cases: few,
            ..config
        }
    }
}

pub fn block_on<T>(future: impl Future<Output = T>) -> T {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_time().build().unwrap().block_on(future)
}
