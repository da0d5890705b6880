// Package api tests the kinds, the controller and what the chart lets it do against a real API server.
package api
