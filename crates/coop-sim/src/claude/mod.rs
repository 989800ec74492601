//! A scripted agent with the manners of Claude Code.
