package plan

// ShortKey is what of a policy's key a comment of nftables has room for.
func ShortKey(key string) string { return key[:min(len(key), 127)] }

// concernsNode reports whether a node has to do with a policy.
func (c *concern) concernsNode() bool { return c.Pods > 0 || len(c.addrs) > 0 || c.Member }
