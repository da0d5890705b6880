package datapath

// countedWires counts the sockets that are opened and closed, and the frames that they send.
type countedWires struct{ opened, sent, closed int }

func (c *countedWires) Send(int, []byte) error { c.sent++; return nil }
func (c *countedWires) Close() error           { c.closed++; return nil }
