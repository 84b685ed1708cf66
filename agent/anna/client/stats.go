package client

// Stats are counts since the start, but for Outstanding and Lost.
type Stats struct {
	Outstanding int // tuples sent and not answered, PUTs and lookups only
	Limit       int // of those
	Lost        int // tuples not answered in time that still count
	Sent        uint64
	Answered    uint64
	Retried     uint64 // tuples sent again
	TimedOut    uint64 // tuples given up
	Unknown     uint64 // answers nobody waited for: of an earlier run, or far too late
	Malformed   uint64
}

// Stats tells what has happened.
func (c *Client) Stats() Stats {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.stats
	s.Outstanding, s.Limit = c.shared.inUse(), c.shared.max()
	for _, a := range c.pending {
		if a.state == lost {
			s.Lost += a.left
		}
	}
	return s
}
