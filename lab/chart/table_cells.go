package chart

// Cell is one figure of a table, with what has to be said of it.
type Cell struct{ Value, Note, Class string }
