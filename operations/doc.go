// Package operations is the folder of the controllers, which look after what was
// injected. Each is a package with one function Add(mgr, Options) error, and all
// run in the process `stategraft controller`, on its leader.
package operations
