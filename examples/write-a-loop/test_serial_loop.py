"""The loop keeps the contract of loops."""

from serial_loop import serial_loop

from terret_testing.loop_contract import LoopContract


class TestSerialLoop(LoopContract):
    loop = serial_loop
