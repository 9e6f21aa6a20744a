//! stub
use crate::exit::Exit;
/// Convert
#[derive(Debug, clap::Args)]
pub(crate) struct Args {}
pub(crate) fn run(_: &Args) -> anyhow::Result<Exit> {
    Ok(Exit::Clean)
}
