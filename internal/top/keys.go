package top

import (
	tea "charm.land/bubbletea/v2"
)

// keyHelp is what the keys do, for people.
var keyHelp = [][2]string{
	{"1 … 6, Tab", "another page"},
	{"↑ ↓ PgUp PgDn", "another line"},
	{"s, r", "sort by the next column; reverse"},
	{"/", "show only lines with this text; Esc shows all"},
	{"Space", "pause; go on"},
	{"t", "trace a packet of the flow: what the data path does with it"},
	{"m", "monitor packets of the line: drops, or those that are forwarded"},
	{"c", "capture packets of the line into a file"},
	{"?", "this help"},
	{"q", "quit"},
}

// key obeys a key.
func (m *model) key(msg tea.KeyPressMsg) tea.Cmd {
	if m.typing {
		m.typeFilter(msg)
		return nil
	}
	t := &m.page().table
	switch k := msg.String(); k {
	case "q", "ctrl+c":
		return tea.Quit
	case "?":
		m.help = !m.help
	case "esc":
		m.help, t.filter, m.message = false, "", ""
	case "1", "2", "3", "4", "5", "6":
		return m.turnTo(int(k[0] - '1'))
	case "tab", "right":
		return m.turnTo((m.current + 1) % len(m.pages))
	case "shift+tab", "left":
		return m.turnTo((m.current + len(m.pages) - 1) % len(m.pages))
	case "/":
		m.typing = true
	case "space":
		if m.paused = !m.paused; !m.paused {
			return m.ask()
		}
	case "t", "m", "c":
		return m.run(k)
	default:
		t.key(k, m.rowsShown())
	}
	return nil
}

// turnTo shows another page.
func (m *model) turnTo(page int) tea.Cmd {
	m.current, m.help, m.message = page, false, ""
	return m.ask()
}

// typeFilter takes what is typed behind "/".
func (m *model) typeFilter(msg tea.KeyPressMsg) {
	t := &m.page().table
	switch msg.String() {
	case "enter":
		m.typing = false
	case "esc", "ctrl+c":
		m.typing, t.filter = false, ""
	case "backspace":
		if runes := []rune(t.filter); len(runes) > 0 {
			t.filter = string(runes[:len(runes)-1])
		}
	default:
		t.filter += msg.Text
	}
}

// run leaves the screen to a command about the line that is selected.
func (m *model) run(key string) tea.Cmd {
	l, ok := m.page().table.selected()
	if !ok {
		m.message = "there is no line to ask about"
		return nil
	}
	args, err := m.commands.about(key, l.subject)
	if err != nil {
		m.message = err.Error()
		return nil
	}
	return tea.Exec(&visit{program: m.commands.program, args: args}, func(err error) tea.Msg { return returned{err} })
}
