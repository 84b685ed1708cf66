// Package alerts tests the rules and the dashboard of the chart with
// Prometheus' own parser and engine. It is a module of its own, so that
// whoever builds Stategraft does not get Prometheus with it.
package alerts
