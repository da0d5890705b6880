// Package chart has Helm install the chart into a real API server, and runs the controller and an agent with the rights that it gives.
package chart
