package chart

import (
	"fmt"
	"html/template"

	"github.com/selvage/selvage/lab/result"
)

// Topology draws the path that was measured, left to right, or top to bottom
// on a phone. Hosts carry the strip in which the targets differ.
func (v View) Topology() (f Figure) {
	if len(v.Result.Topology.Nodes) == 0 {
		return f
	}
	f.Wide, f.Narrow = v.across(), v.down()
	return f
}

// between finds the link that joins two nodes.
func (v View) between(a, b string) (result.Link, bool) {
	for _, l := range v.Result.Topology.Links {
		if l.A == a && l.B == b || l.A == b && l.B == a {
			return l, true
		}
	}
	return result.Link{}, false
}

func (v View) across() template.HTML {
	const width, height, boxTop, boxHeight = 1104.0, 114.0, 2.0, 110.0
	nodes := v.Result.Topology.Nodes
	boxes := min(188, width/float64(len(nodes))*0.68)
	weight, sum := make([]float64, len(nodes)), 0.0
	for i := range nodes[1:] {
		weight[i] = 1
		if l, ok := v.between(nodes[i].Name, nodes[i+1].Name); ok && l.Role == "underlay" {
			weight[i] = 2
		}
		sum += weight[i]
	}
	unit := 0.0
	if sum > 0 {
		unit = (width - boxes*float64(len(nodes))) / sum
	}
	c := NewCanvas(width, height)
	x := 0.0
	for i, n := range nodes {
		if i+1 < len(nodes) {
			v.linkAcross(c, n, nodes[i+1], x+boxes, x+boxes+weight[i]*unit, boxTop+boxHeight/2)
		}
		box(c, n, x, boxTop, boxes, boxHeight)
		x += boxes + weight[i]*unit
	}
	return c.SVG("wide", v.topologyWords())
}

// linkAcross draws a link between two boxes and, on the underlay, the tunnel.
func (v View) linkAcross(c *Canvas, a, b result.Node, from, to, y float64) {
	l, ok := v.between(a.Name, b.Name)
	if !ok {
		return
	}
	mid := (from + to) / 2
	if l.Role != "underlay" {
		c.Line(from, y, to, y, "link")
		c.Text(mid, y-10, "small m strong-text", l.Role)
		c.Text(mid, y+20, "small m", fmt.Sprintf("MTU %d", l.MTU))
		return
	}
	c.Open("k-selvage", "")
	c.Rect(from-8, y-11, to-from+16, 22, 11, "tube")
	c.Close()
	c.Line(from, y, to, y, "link")
	c.Text(mid, y-20, "small m strong-text", fmt.Sprintf("underlay, MTU %d", l.MTU))
	if mtu := v.Environment.MTU["inner"]; mtu > 0 {
		c.Text(mid, y+28, "small m", fmt.Sprintf("tunnel, inner MTU %d", mtu))
	}
}

func (v View) down() template.HTML {
	const width, boxHeight, outage = 358.0, 98.0, 52.0
	nodes := v.Result.Topology.Nodes
	c := NewCanvas(width, float64(len(nodes))*(boxHeight+outage)-outage+4)
	for i, n := range nodes {
		y := 2 + float64(i)*(boxHeight+outage)
		if i+1 < len(nodes) {
			if l, ok := v.between(n.Name, nodes[i+1].Name); ok {
				from := y + boxHeight
				if l.Role == "underlay" {
					c.Open("k-selvage", "")
					c.Rect(width/2-19, from-8, 38, outage+16, 19, "tube")
					c.Close()
				}
				c.Line(width/2, from, width/2, from+outage, "link")
				mtuAt := from + outage/2 + 4
				if l.Role == "underlay" {
					mtuAt -= 8
				}
				c.Text(width/2+28, mtuAt, "small", fmt.Sprintf("MTU %d", l.MTU))
				c.Text(width/2-28, from+outage/2+4, "small e strong-text", l.Role)
				if mtu := v.Environment.MTU["inner"]; mtu > 0 && l.Role == "underlay" {
					c.Text(width/2+28, from+outage/2+13, "small", fmt.Sprintf("tunnel, inner MTU %d", mtu))
				}
			}
		}
		box(c, n, 46, y, width-92, boxHeight)
	}
	return c.SVG("narrow", v.topologyWords())
}

// box is one node: name, role, addresses and, on a host, the strip of the data
// path under test.
func box(c *Canvas, n result.Node, x, y, w, h float64) {
	c.Rect(x+0.5, y+0.5, w-1, h-1, 8, "node")
	c.Text(x+14, y+24, "node-name", Clip(n.Name, 18))
	c.Text(x+w-14, y+24, "small e", Clip(n.Role, 10))
	lines := int((h - 62) / 16)
	if n.Role != "host" {
		lines = int((h - 38) / 16)
	}
	for i, addr := range n.Addrs {
		if i >= lines {
			break
		}
		if i == lines-1 && len(n.Addrs) > lines {
			addr = fmt.Sprintf("and %d more", len(n.Addrs)-i)
		}
		c.Text(x+14, y+44+float64(i)*16, "addr", Clip(addr, int((w-28)/7)))
	}
	if n.Role == "host" {
		c.Open("k-selvage", "The targets differ here: a bridge, the kernel's vxlan device, or the Selvage edge on port and underlay")
		c.Rect(x+8, y+h-32, w-16, 24, 5, "band")
		c.Line(x+14, y+h-28, x+14, y+h-12, "stitch")
		c.Line(x+w-14, y+h-28, x+w-14, y+h-12, "stitch")
		c.Text(x+w/2, y+h-16, "small m strong-text", "edge, vxlan or bridge")
		c.Close()
	}
}

func (v View) topologyWords() string {
	words := "Measured path: "
	nodes := v.Result.Topology.Nodes
	for i, n := range nodes {
		if i > 0 {
			if l, ok := v.between(nodes[i-1].Name, n.Name); ok {
				words += fmt.Sprintf(", %s link of MTU %d, ", l.Role, l.MTU)
			} else {
				words += ", "
			}
		}
		words += n.Name
	}
	return words + ". The hosts carry the data path under test: edge, vxlan or bridge."
}
