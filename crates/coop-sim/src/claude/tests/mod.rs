//! The whole agent: on a pseudo-terminal, on pipes, and as a process of its own.

mod pipe;
mod process;
mod screen;
mod world;
