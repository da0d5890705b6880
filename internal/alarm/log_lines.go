package alarm

import "fmt"

// LogLines watches over lines of the log that nobody took.
type LogLines struct {
	o      Options
	lost   func() uint64 // so far
	before uint64        // at the last look
}

// NewLogLines watches over lost; nil is of a log that loses none.
func NewLogLines(o Options, lost func() uint64) *LogLines { return &LogLines{o: o, lost: lost} }

// Look tells of lines that were lost since the last look.
func (l *LogLines) Look() {
	if l.lost == nil {
		return
	}
	var err error
	lost := l.lost()
	if n := lost - l.before; n > 0 {
		err = fmt.Errorf("%d lines are lost: nobody reads them fast enough, or at all", n)
	}
	l.before = lost
	l.o.Report(WriteLog, err)
}
