// Package experiment is the contract that experiments of the lab keep, and the engine that runs
// them: the directory of a run, progress and pace, targets and builds, networks and their counters.
//
// Its invariant: it knows no experiment by name. An experiment leaves nothing behind but its
// results, however it ends; after a SIGKILL the next start or selvage lab restore removes the rest.
// Do not measure, compute or judge here: that is the experiment's own package, on lab/measure,
// lab/stats, lab/diagnose and lab/chart.
package experiment
