// Package docs tests that the documentation is true. Its one invariant: every
// command that a Markdown file of this repository shows has run in a test.
//
// Commands stand in fenced blocks. In a `console` block they follow "$ " or
// "# " and all other lines are output; in a `sh` block every line is one.
//
//		```console run
//		$ selvage check examples/host-a.yaml
//		examples/host-a.yaml: edge a is good: ...
//		```
//
//	  - A block marked run is run here, line by line, without root, in a folder
//	    that holds examples/. Lines of output must come in that order, blanks
//	    count as one, "..." stands for anything. exit=N after run expects that
//	    exit status of the last command.
//	  - Blocks marked lab are run in selvage lab shell, as root, those of a
//	    document in their order. Their prompt is "lab# ". In their output a time
//	    or a number with a point or a unit stands for any; other numbers and
//	    addresses are meant. A command without output must succeed; a question to
//	    an edge is asked again until the answer has what is shown.
//	  - Any other command needs a line in commands.txt that names the test which
//	    runs it, usually an end-to-end test with a live edge. A line covers the
//	    command with further arguments too. Lines that no document needs any
//	    more fail.
//	  - make targets and files of the repository must exist; git, go, cd and
//	    the like are setup and only known.
//
// Every selvage command, run or not, also goes through the real parser: with
// --help added it must be accepted, so no document shows a flag that is gone.
// YAML blocks that begin with apiVersion, or with spec as a part of a file, must
// pass selvage check, and relative links and their #anchors must resolve. Links to
// other sites are not followed. The references have every field of the schema and
// every command and flag.
package docs
