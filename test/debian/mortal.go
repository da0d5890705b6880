package debian

import (
	"os/exec"
	"runtime"
	"syscall"
)

// startMortal starts a process that is killed when this one ends, however that does. Done is closed when it has ended.
func startMortal(c *exec.Cmd) (done <-chan struct{}, err error) {
	if c.SysProcAttr == nil {
		c.SysProcAttr = &syscall.SysProcAttr{}
	}
	c.SysProcAttr.Pdeathsig = syscall.SIGKILL
	c.SysProcAttr.Setpgid = true // an interrupt from the keyboard is for the test
	started, ended := make(chan error), make(chan struct{})
	go func() {
		runtime.LockOSThread() // Pdeathsig is of the thread
		defer close(ended)
		err := c.Start()
		started <- err
		if err == nil {
			_ = c.Wait() // its state says how
		}
	}()
	return ended, <-started
}
