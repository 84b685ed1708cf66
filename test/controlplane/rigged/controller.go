package rigged

import (
	"context"
	"fmt"
)

// Controller is the process of the controllers, which makes the certificates. It
// can be stopped, killed and started again.
type Controller struct{ process }

// startController starts it with more arguments than those that it needs.
func (r *Rig) startController(ctx context.Context, more []string) error {
	kubeconfig, err := r.account(ctx, controllerAccount)
	if err != nil {
		return err
	}
	c := r.controller("the controller", kubeconfig, more)
	if err := c.startOnFreePorts(ctx); err != nil {
		return fmt.Errorf("with the rights of the manifest: %w", err)
	}
	r.Controller = c
	return nil
}

func (r *Rig) controller(name, kubeconfig string, more []string) *Controller {
	c := &Controller{process{name: name, program: r.Program("stategraft")}}
	c.args = func() []string {
		args := append([]string{"controller", "--certificates", "self-signed", "--config", r.configFile()}, c.common(kubeconfig)...)
		return append(args, more...)
	}
	return c
}
