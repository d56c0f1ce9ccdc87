//! The plug-in as a process, against clusters in memory over HTTPS.

mod bed;
mod checking;
mod health;
mod joining;
mod pipelines;
mod refusals;
mod script;
mod tampering;
mod telling;
mod viewing;
