//go:build !linux

package main

const populate = 0
