package top

import (
	"context"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/selvage/selvage/internal/api"
)

// model is what is shown, and what was typed.
type model struct {
	client   *api.Client
	commands commands
	interval time.Duration

	pages   []*shownPage
	current int
	status  api.Status
	asked   uint64 // readings that were begun: the answer to the last one counts
	cancel  context.CancelFunc

	paused  bool
	help    bool
	typing  bool // a filter
	message string
	err     error

	width, height int
}

// shownPage is a page and how it is looked at.
type shownPage struct {
	page
	reader   *reader
	table    table
	readOnce bool
}

// answered is what a reading brought.
type answered struct {
	number uint64
	at     time.Time // when it was begun
	status api.Status
	lines  []line
	err    error
}

// due says that the next reading is.
type due struct{ number uint64 }

// returned is the end of a command that was run from a line.
type returned struct{ err error }

func newModel(o Options) *model {
	m := &model{client: o.Client, commands: o.commands(), interval: o.Interval, width: 80, height: 24}
	for _, p := range pages() {
		m.pages = append(m.pages, &shownPage{page: p, reader: &reader{client: o.Client, interval: o.Interval}, table: table{columns: p.columns, by: p.sort}})
	}
	return m
}

// Init implements tea.Model.
func (m *model) Init() tea.Cmd { return m.ask() }

// page is the one that is shown.
func (m *model) page() *shownPage { return m.pages[m.current] }

// ask begins a reading of the page that is shown, and gives up one that runs.
func (m *model) ask() tea.Cmd {
	if m.cancel != nil {
		m.cancel()
	}
	ctx, cancel := context.WithCancel(context.Background())
	m.cancel = cancel
	m.asked++
	number, p := m.asked, m.page()
	return func() tea.Msg {
		a := answered{number: number, at: time.Now()}
		if a.status, a.err = m.client.Status(ctx); a.err == nil {
			p.reader.rates.Next(a.at)
			a.lines, a.err = p.read(ctx, p.reader)
		}
		return a
	}
}

// Update implements tea.Model.
func (m *model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.width, m.height = msg.Width, msg.Height
	case tea.KeyPressMsg:
		return m, m.key(msg)
	case answered:
		return m, m.take(msg)
	case due:
		if msg.number == m.asked && !m.paused {
			return m, m.ask()
		}
	case returned:
		if m.message = ""; msg.err != nil {
			m.message = msg.err.Error()
		}
		return m, m.ask()
	}
	return m, nil
}

// take takes an answer, unless another was asked for since. The next reading is due an interval after this one was begun.
func (m *model) take(a answered) tea.Cmd {
	if a.number != m.asked {
		return nil
	}
	if m.err = a.err; a.err == nil {
		m.status = a.status
		m.page().readOnce = true
		m.page().table.set(a.lines)
	}
	if m.paused {
		return nil
	}
	wait := max(time.Until(a.at.Add(m.interval)), time.Millisecond)
	return tea.Tick(wait, func(time.Time) tea.Msg { return due{a.number} })
}
